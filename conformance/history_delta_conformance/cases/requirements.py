# SPDX-License-Identifier: Apache-2.0
"""The requirements of SPEC.md by their ids: where each stands, and whether it says MUST or SHOULD.

A test holds this table and SPEC.md together. What a requirement says stands there alone.
"""

from dataclasses import dataclass

_SPECIFICATION = "protocol/SPEC.md"


@dataclass(frozen=True)
class Requirement:
    """One of F-n (both ends), C-n (the shim), S-n (the server). Without a key word it states a format or a rule."""

    id: str
    section: str
    must: bool
    should: bool

    @property
    def place(self) -> str:
        return f"{_SPECIFICATION} section {self.section}"


# Section, key words, ids.
_TABLE = (
    ("1", "MUST", "F-1 F-2 F-3"),
    ("2", "MUST", "F-4"),
    ("3.1", "MUST", "F-5 S-1"),
    ("3.2", "MUST", "C-1 C-2 S-2 S-3"),
    ("3.3", "MUST", "C-3 C-5 S-4"),
    ("3.3", "", "C-4 C-6"),
    ("3.4", "MUST", "S-5 S-7"),
    ("3.4", "MUST SHOULD", "C-7 S-6"),
    ("3.5", "MUST", "C-8 C-10 S-9 S-10"),
    ("3.5", "MUST SHOULD", "S-8"),
    ("3.5", "", "C-9"),
    ("4.1", "MUST", "F-7"),
    ("4.1", "", "F-6"),
    ("4.2", "MUST", "F-8"),
    ("4.2", "", "F-9 F-10 F-11"),
    ("6.1", "", "F-12 F-13 F-14"),
    ("6.2", "MUST", "F-15"),
    ("6.2", "", "F-16"),
    ("6.3", "MUST", "F-17"),
    ("6.3", "", "F-18"),
    ("6.4", "", "F-19"),
    ("6.6", "MUST", "C-11 S-11"),
    ("6.6", "", "F-20"),
    ("6.7", "MUST", "S-12 S-13"),
    ("7", "MUST", "S-14 S-15 S-19 C-12 C-13 C-14 C-16"),
    ("7", "SHOULD", "C-17"),
    ("7", "MUST SHOULD", "C-15"),
    ("7", "", "S-16 S-17 S-18 S-20 C-18"),
    ("8", "MUST", "S-21 S-25 S-26 F-21 F-22 F-23"),
    ("8", "SHOULD", "F-24"),
    ("8", "MUST SHOULD", "S-23"),
    ("8", "", "C-19 S-22 S-24 C-20 C-21 S-27"),
    ("9", "", "F-25"),
    ("11", "MUST", "S-28"),
    ("11", "", "S-29 S-30"),
)

REQUIREMENTS = {
    name: Requirement(name, section, "MUST" in words, "SHOULD" in words)
    for section, words, names in _TABLE
    for name in names.split()
}
