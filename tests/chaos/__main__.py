from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.faults import FAULTS, FAULTS_OF_CLOCK
from tests.chaos.run import chaos

minutes = float(sys.argv[1])
seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
for faults, part in ((FAULTS, 0.8), (FAULTS_OF_CLOCK, 0.2)):
    with tempfile.TemporaryDirectory() as temporary:
        print(json.dumps(chaos(Path(temporary), part * minutes * 60, seed, faults), indent=1), flush=True)
