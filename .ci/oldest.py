"""Print the oldest versions that setup.cfg allows, as constraints for pip.

In a fresh virtual environment:
python .ci/oldest.py >oldest.txt && pip install --constraint oldest.txt --editable '.[test]' && python -m pytest
"""

from configparser import ConfigParser
from pathlib import Path

setup = ConfigParser()
setup.read(Path(__file__).resolve().parent.parent / "setup.cfg")
for requirements in (setup["options"]["install_requires"], setup["options.extras_require"]["report"]):
    print(requirements.strip().replace(">=", "=="))
