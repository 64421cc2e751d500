# SPDX-License-Identifier: Apache-2.0
"""What a conformance run found, and the forms in which it is told: terminal, Markdown, JSON, JUnit XML, HTML."""
