"""Reading and writing files: what fits comes back exactly, what doesn't is refused with its place."""

import csv
import io
import os
import pickle
import stat
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from recfact.errors import DataFileError, OptionError
from recfact.report.files import Zeros, read_array, read_table, replacing, write_array
from recfact.report.sources import split_part


class Explosive:
    """An object that leaves a mark if anything unpickles it."""

    def __reduce__(self):
        return (os.mkdir, ("exploded",))


def npy_bytes(array, allow_pickle=False):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name, content):
    Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return name


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_round_trip_keeps_dtype_shape_and_bits(suffix, dtype, rng):
    x = rng.standard_normal((3, 5)).astype(dtype)
    write_array(Path(f"x{suffix}"), x)
    back = read_array(f"x{suffix}", "x")
    assert back.dtype == dtype
    assert np.array_equal(back, x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_csv_round_trip_is_exact(dtype, rng):
    x = (rng.standard_normal(50) * 10.0 ** rng.integers(-30, 30, 50)).astype(dtype)
    write_array(Path("x.csv"), x)
    assert np.array_equal(read_array("x.csv", "x").astype(dtype), x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_csv_keeps_the_cells_beside_the_states(dtype, rng):
    x = (rng.standard_normal(3) * 10.0 ** rng.integers(-30, 30, 3)).astype(dtype)
    times = {'the "day", or x': ["2001-01-01", "2001-01-02T00:00:00,5", "é"]}
    write_array(Path("x.csv"), x, times)
    with Path("x.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row[name] for name in times for row in rows] == [cell for cells in times.values() for cell in cells]
    assert np.array_equal(read_array("x.csv:x", "u").astype(dtype), x)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64])
def test_integers_become_float64(dtype):
    np.save("a.npy", np.array([1, 0, 1], dtype=dtype))
    back = read_array("a.npy", "a")
    assert back.dtype == np.float64
    assert back.tolist() == [1.0, 0.0, 1.0]


def test_older_and_newer_npy_headers():
    array = np.arange(3.0)
    for version in [(1, 0), (2, 0), (3, 0)]:
        with Path("a.npy").open("wb") as stream:
            np.lib.format.write_array(stream, array, version=version)
        assert np.array_equal(read_array("a.npy", "a"), array)


def test_parts_of_files():
    np.savez("both.npz", a=[1.0], u=[2.0], other=[3.0])
    assert read_array("both.npz", "a") == [1.0]  # by the name of the option
    assert read_array("both.npz", "u") == [2.0]
    assert read_array("both.npz:other", "a") == [3.0]
    write("both.csv", "a,other\n1,3\n")
    assert read_array("both.csv", "a") == [1.0]
    assert read_array("both.csv:other", "a") == [3.0]
    write("bare.csv", "1\n2\n")
    assert read_array("bare.csv", "u").tolist() == [1.0, 2.0]
    np.savez("one.npz", whatever=[4.0])
    assert read_array("one.npz", "a") == [4.0]


def test_a_colon_in_the_name_of_a_file():
    np.save("odd:name.npy", [1.0])
    assert split_part("odd:name.npy") == (Path("odd:name.npy"), None)
    assert read_array("odd:name.npy", "a") == [1.0]


def test_csv_takes_a_mark_quotes_blank_lines_and_windows_line_ends():
    write("a.csv", b"\xef\xbb\xbf" + b'time,"a"\r\n\r\n0, 1e-3 \r\n1,"2.5"\r\n')
    assert read_array("a.csv:a", "a").tolist() == [1e-3, 2.5]


HOSTILE = {
    "missing": ("nothing.npy", None, "there is no file nothing.npy; name one that ends in .npy"),
    "a list": ("0.9,0.8", None, "0.9,0.8 is a list of numbers, and a file or one number is needed; write the numbers"),
    "directory": ("folder.npy", "mkdir", "folder.npy is a directory"),
    "unknown kind": ("a.txt", "1\n", "must be a .npy, .npz or .csv file"),
    "empty npy": ("a.npy", b"", "a.npy is not a readable .npy array"),
    "empty npz": ("a.npz", b"", "a.npz is not a readable .npz file"),
    "empty csv": ("a.csv", b"", "a.csv is empty"),
    "blank csv": ("a.csv", b"\n\n\n", "a.csv is empty"),
    "only a header": ("a.csv", "date,co2\n", "only a header"),
    "junk npy": ("a.npy", bytes(range(256)) * 4, "not a readable .npy array"),
    "junk npz": ("a.npz", bytes(range(256)) * 4, "not a readable .npz file"),
    "junk csv": ("a.csv", bytes(range(256)) * 4, "not UTF-8 text: it holds the byte 0x80"),
    "cut npy": ("a.npy", npy_bytes(np.ones(100))[:-8], "not a readable .npy array"),
    "cut header": ("a.npy", npy_bytes(np.ones(100))[:40], "not a readable .npy array"),
    "impossible size": ("a.npy", npy_bytes(np.ones(7)).replace(b"(7,)", b"(7777777777777777777,)"), "not a readable"),
    "evil header": ("a.npy", npy_bytes(np.ones(7)).replace(b"(7,)", b"f()."), "not a readable .npy array"),
    "pickle": ("a.npy", pickle.dumps(Explosive()), "pickled Python objects, which are never loaded"),
    "object npy": ("a.npy", npy_bytes(np.array([Explosive()]), allow_pickle=True), "pickled Python objects"),
    "text npy": ("a.npy", npy_bytes(np.array(["one"])), "holds <U3, not real or complex numbers"),
    "dates npy": ("a.npy", npy_bytes(np.array(["2001-01-01"], dtype="M8[D]")), "not real or complex numbers"),
    "records npy": ("a.npy", npy_bytes(np.zeros(2, dtype=[("a", float)])), "not real or complex numbers"),
    "no numbers": ("a.npy", npy_bytes(np.ones((0, 3))), r"a.npy is empty: its shape is \(0, 3\)"),
    "nan npy": ("a.npy", npy_bytes(np.array([[1.0, 2.0], [3.0, np.nan]])), r"holds nan at index \[1, 1\]"),
    "inf npy": ("a.npy", npy_bytes(np.array([1.0, -np.inf])), r"holds -inf at index 1; every number must be finite$"),
    "ragged csv": ("a.csv", "a,b\n1,2\n3\n", "line 3: it has 1 cell, and the first line has 2; give all lines as many"),
    "word in csv": ("a.csv", "a\n1\ntwo\n", "a.csv, line 3, column 'a': 'two' is not a number"),
    "empty cell": (
        "a.csv:a",
        "a,b\n1,2\n,3\n",
        "a.csv, line 3, column 'a': the cell is blank, and a number is required",
    ),
    "nan cell": ("a.csv", "a\n1\nnan\n", "line 3, column 'a': 'nan' is not a finite number"),
    "huge integer": ("a.csv", "a\n" + "9" * 400 + "\n", "is not a finite number"),
    "separated digits": ("a.csv", "a\n1_000\n", "'1_000' is not a number"),
    "no header": ("a.csv", "1\nnan\n", "a.csv, line 2, column '1'"),
    "null byte": ("a.csv", "a\n1\x00\n", "a.csv, line 2"),
    "open quote": ("a.csv", 'a\n"1\n', "a.csv, line 2: a cell begins with a quotation mark, and none ends it"),
    "long cell": ("a.csv", "a\n" + "1" * 200_000 + "\n", "a.csv, line 2: field larger than field limit"),
    "several columns": ("b.csv", "b,c\n1,2\n", r"several columns \(b, c\); choose one, as in FILE:b"),
    "one row": (
        "row.csv",
        ",".join(["0.5"] * 300) + "\n",
        r"row.csv has one row: .* write one number a line; .* \(1, 2, .*, 12 and so on, 300 in all\); choose one, as",
    ),
    "one of many columns": (
        "row.csv:x",
        ",".join(["0.5"] * 300) + "\n",
        "no column named 'x'.* and so on, 300 in all$",
    ),
    "wrong column": ("b.csv:x", "b,c\n1,2\n", "no column named 'x'; its columns are 'b', 'c'"),
    "twice the column": ("a.csv", "a,a\n1,2\n", "two columns named 'a'"),
    "part of npy": ("a.npy:a", npy_bytes(np.ones(1)), "one array without named parts"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused_with_their_place(case):
    source, content, message = HOSTILE[case]
    path = split_part(source)[0]
    if content == "mkdir":
        path.mkdir()
    elif content is not None:
        write(path, content)
    with pytest.raises(DataFileError, match=message) as caught:
        read_array(source, "a")
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not Path("exploded").exists()


def test_hostile_npz_members():
    for name, content, message in [
        ("a.npy", npy_bytes(np.array([Explosive()]), allow_pickle=True), "array 'a' holds pickled Python objects"),
        ("a.npy", npy_bytes(np.array([np.nan])), r"array 'a' holds nan at index 0; every number must be finite$"),
        ("a.npy", b"junk", "array 'a' is not a readable .npy array"),
        ("a.txt", b"junk", "holds no arrays"),
        ("b.npy", npy_bytes(np.ones(1)), "no array named 'a'; choose one of b"),
    ]:
        with zipfile.ZipFile("z.npz", "w") as archive:
            archive.writestr(name, content)
        with pytest.raises(DataFileError, match=message):
            read_array("z.npz:a", "a")
    assert not Path("exploded").exists()


def test_corrupt_npz_member(rng):
    np.savez_compressed("z.npz", a=rng.standard_normal(1000))
    content = bytearray(Path("z.npz").read_bytes())
    content[len(content) // 2] ^= 0xFF
    write("z.npz", bytes(content))
    with pytest.raises(DataFileError, match=r"z.npz"):
        read_array("z.npz", "a")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_unreadable_file():
    np.save("a.npy", [1.0])
    Path("a.npy").chmod(0)
    with pytest.raises(DataFileError, match=r"a.npy: Permission denied"):
        read_array("a.npy", "a")


def test_what_the_system_says_is_passed_on(monkeypatch):
    np.save("a.npy", [1.0])

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataFileError, match=r"a.npy: Permission denied"):
        read_array("a.npy", "a")


def test_tables_with_a_step_column():
    write("t.csv", "when,co2\n0,1\n5,2\n")
    table, column = read_table("t.csv", "u", "when")
    assert (column, table.numbers("when").tolist()) == ("co2", [0.0, 5.0])
    for content, message in [
        ("when\n1\n", "no column beside 'when'"),
        ("when,b,c\n1,2,3\n", "several columns beside 'when'"),
        ("then,co2\n1,2\n", "no column named 'when'"),
    ]:
        write("t.csv", content)
        with pytest.raises(DataFileError, match=message):
            read_table("t.csv", "u", "when")
    np.save("t.npy", [1.0])
    with pytest.raises(DataFileError, match=r"a column of a .csv file, got t.npy"):
        read_table("t.npy", "u", "when")


def test_writing_replaces_whole_files_only():
    write("x.npy", b"before")

    def write_half():
        with replacing(Path("x.npy")) as stream:
            stream.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert Path("x.npy").read_bytes() == b"before"
    assert [path.name for path in Path().iterdir()] == ["x.npy"]


@pytest.mark.parametrize("before", [b"before", None])
def test_a_link_stays_one(before):
    Path("there").mkdir()
    if before:
        write("there/real.npy", before)
    Path("x.npy").symlink_to("there/real.npy")
    write_array(Path("x.npy"), np.ones(3))
    assert Path("x.npy").is_symlink()
    assert np.load("there/real.npy").tolist() == [1, 1, 1]
    assert [path.name for path in Path("there").iterdir()] == ["real.npy"]


def test_devices_and_pipes_are_not_replaced():
    os.mkfifo("pipe.npy")
    Path("null.npy").symlink_to(os.devnull)
    Path("lost.npy").symlink_to("nowhere/x.npy")
    for name, message in (("pipe", "is a device or a pipe"), ("null", "is a device or a pipe"), ("lost", "nowhere")):
        with pytest.raises(DataFileError, match=rf"{name}\.npy .*{message}"):
            write_array(Path(f"{name}.npy"), np.ones(3))
    assert stat.S_ISFIFO(Path("pipe.npy").stat().st_mode)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_written_files_have_the_usual_permissions():
    Path("plain").touch()
    write_array(Path("x.npy"), np.ones(1))
    assert stat.S_IMODE(Path("x.npy").stat().st_mode) == stat.S_IMODE(Path("plain").stat().st_mode)


def test_what_cannot_be_written():
    Path("x.npy").mkdir()
    with pytest.raises(DataFileError, match=r"x.npy is a directory"):
        write_array(Path("x.npy"), np.ones(1))
    with pytest.raises(DataFileError, match=r"no/x.npy can't be written: there is no directory no"):
        write_array(Path("no/x.npy"), np.ones(1))
    with pytest.raises(OptionError, match=r"must end in .npy, .npz or .csv"):
        write_array(Path("x.txt"), np.ones(1))
    for x in (np.ones((2, 2, 2)), np.ones(2, dtype=complex)):
        with pytest.raises(DataFileError, match="real numbers along one or two axes"):
            write_array(Path("x.csv"), x)
    assert [path.name for path in Path().iterdir()] == ["x.npy"]


def test_bfloat16_is_read_from_the_bytes_that_numpy_writes(tmp_path):
    written = np.array([0.5, -1.75, 3e38], dtype=ml_dtypes.bfloat16)
    np.save(tmp_path / "b.npy", written)
    read = read_array(str(tmp_path / "b.npy"), "a")
    assert read.dtype == ml_dtypes.bfloat16
    assert np.array_equal(read, written)
    np.save(tmp_path / "b.npy", np.array([0.5, np.inf], dtype=ml_dtypes.bfloat16))
    with pytest.raises(DataFileError, match="must be finite"):
        read_array(str(tmp_path / "b.npy"), "a")


@pytest.mark.parametrize(
    "text",
    [
        "day;level\n1,5;2,25\n-,5;3e-1\n",
        "day\tlevel\n1,5\t2,25\n-,5\t3e-1\n",
        "day;level\n1.5;2.25\n-.5;3e-1\n",
        '# made by hand\n\n  # in 2001\nday,level\n1.5,2.25\n# a "gap\n-.5,3e-1\n',
    ],
)
def test_separators_decimal_commas_and_comments(text):
    write("t.csv", text)
    assert read_array("t.csv:day", "u").tolist() == [1.5, -0.5]
    assert read_array("t.csv:2", "u").tolist() == [2.25, 0.3]  # the second column


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a;b\n1,5;2.5\n", "numbers with commas and numbers with points; write all of them alike"),
        ("a;b\n1.234,5;2\n", "line 2, column 'a': '1.234,5' is not a number"),
        ("# one\na\n# two\n1\nx\n", "line 5, column 'a': 'x' is not a number"),
    ],
)
def test_numbers_that_could_be_read_in_two_ways_are_refused(text, message):
    write("t.csv", text)
    with pytest.raises(DataFileError, match=message):
        read_array("t.csv:a", "a")


def test_a_column_is_found_by_its_name_before_its_number():
    write("t.csv", "2,x\n7,8\n")
    assert read_array("t.csv:2", "u").tolist() == [7]
    with pytest.raises(DataFileError, match="no column named '3'; its columns are '2', 'x'"):
        read_array("t.csv:3", "u")


def test_missing_inputs_are_zeros_only_on_request():
    write("t.csv", 'u\n1\nNA\n""\nnan\n2\n')
    np.save("u.npy", np.array([1, np.nan, 2], np.float32))
    np.savez("u.npz", u=[np.nan])
    zeros = Zeros()
    assert read_array("t.csv", "u", zeros=zeros).tolist() == [1, 0, 0, 0, 2]
    assert zeros.count == 3
    kept = read_array("u.npy", "u", zeros=zeros)
    assert (kept.tolist(), kept.dtype) == ([1, 0, 2], np.float32)
    assert read_array("u.npz", "u", zeros=zeros).tolist() == [0]
    assert zeros.count == 5
    for name in ("t.csv", "u.npy", "u.npz"):
        with pytest.raises(DataFileError):
            read_array(name, "u")
    np.save("u.npy", [np.inf])
    with pytest.raises(DataFileError, match="every number must be finite"):
        read_array("u.npy", "u", zeros=zeros)
