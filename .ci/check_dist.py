"""Look into the built wheel and source archive: what must be there is, what must not isn't.

Usage: python .ci/check_dist.py DIST_FOLDER
"""

import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = {
    "report", "dask", "gpu-cuda12", "gpu-cuda13", "gpu-test", "jax", "torch", "study", "test", "docs", "bench", "dev",
}  # fmt: skip


def files_of(folder: str) -> set[str]:
    """Return the files of a folder of the source tree, without compiled leftovers."""
    files = (path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file())
    return {path.as_posix() for path in files if "__pycache__" not in path.parts}


def check_wheel(path: Path) -> list[str]:
    """Return what is wrong with the wheel."""
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        (info,) = {PurePosixPath(name).parts[0] for name in names if ".dist-info/" in name}
        metadata = Parser().parsestr(wheel.read(f"{info}/METADATA").decode())
        entry_points = wheel.read(f"{info}/entry_points.txt").decode()
    source = files_of("recfact")
    packaged = {name for name in names if not name.startswith(f"{info}/")}
    problems = [f"in the source but not in the wheel: {name}" for name in sorted(source - packaged)]
    problems += [f"in the wheel but not in the package: {name}" for name in sorted(packaged - source)]
    if not any(name.startswith("recfact/data/") and name.endswith(".csv") for name in names):
        problems.append("the bundled data set is missing")
    if "recfact/py.typed" not in names:
        problems.append("recfact/py.typed is missing")
    if f"{info}/licenses/LICENSE" not in names:
        problems.append("the licence is missing")
    if "recfact = recfact.cli:main" not in entry_points:
        problems.append("the recfact command is missing")
    if extras := EXTRAS ^ set(metadata.get_all("Provides-Extra", [])):
        problems.append(f"extras differ from those expected: {sorted(extras)}")
    return [f"{path.name}: {problem}" for problem in problems]


def check_sdist(path: Path) -> list[str]:
    """Return what is wrong with the source archive."""
    with tarfile.open(path) as archive:
        names = {PurePosixPath(*PurePosixPath(name).parts[1:]).as_posix() for name in archive.getnames()}
    wanted = (
        files_of("recfact")
        | files_of("tools")
        | files_of("tests")
        | {"LICENSE", "README.md", "CHANGELOG.md", "setup.cfg", "pyproject.toml"}
    )
    problems = [f"missing: {name}" for name in sorted(wanted - names)]
    stray = [name for name in names if "__pycache__" in name or name.startswith((".venv", "docs/_build"))]
    problems += [f"must not be there: {name}" for name in sorted(stray)]
    return [f"{path.name}: {problem}" for problem in problems]


def main(folder: Path) -> int:
    """Check the one wheel and the one source archive in `folder`."""
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    problems = check_wheel(wheel) + check_sdist(sdist)
    print("\n".join(problems) or f"{wheel.name} and {sdist.name}: contents as they should be")
    return len(problems) > 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
