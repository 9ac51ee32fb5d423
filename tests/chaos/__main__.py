from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.faults import FAULTS
from tests.chaos.run import chaos

minutes = float(sys.argv[1])
seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
with tempfile.TemporaryDirectory() as temporary:
    print(json.dumps(chaos(Path(temporary), minutes * 60, seed, FAULTS), indent=1), flush=True)
