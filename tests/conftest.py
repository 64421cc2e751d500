# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

# Helpers that several test folders share are imported as `support.<module>`.
sys.path.insert(0, str(Path(__file__).parent))
