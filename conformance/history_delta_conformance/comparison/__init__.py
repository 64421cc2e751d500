# SPDX-License-Identifier: Apache-2.0
"""Compares a run with the transport off with one with it on, after normalising what no two runs have in common."""
