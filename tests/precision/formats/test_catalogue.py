"""Names of formats."""

import ml_dtypes
import numpy as np
import pytest

import recfact
from recfact import precision as pr
from recfact.errors import DTypeError, OptionError
from recfact.precision.formats.catalogue import p3109

NAMES = {
    "binary16": ["float16", "fp16", "half", "FP16", "Float 16", "f2", "<f2", np.float16, np.dtype("f2"), "e5m10"],
    "binary32": ["float32", "fp32", "single", "f4", ">f4", np.float32, "e8m23"],
    "binary64": ["float64", "fp64", "double", "f8", float, np.float64, "float"],
    "binary128": ["fp128", "float128", "quad"],
    "bfloat16": ["bf16", "BF16", "BFloat16", ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)],
    "tf32": ["TF32", "tensorfloat-32"],
    "float8_e5m2": ["fp8 e5m2", "fp8-e5m2", "fp8_e5m2", "e5m2", "E5M2", "ocp_e5m2", ml_dtypes.float8_e5m2],
    "float8_e4m3fn": ["fp8 e4m3fn", "e4m3fn", "ocp_e4m3", "OCP E4M3", ml_dtypes.float8_e4m3fn],
    "float8_e4m3fnuz": ["fp8 e4m3fnuz", "E4M3FNUZ", ml_dtypes.float8_e4m3fnuz],
    "float8_e5m2fnuz": ["fp8 e5m2fnuz", ml_dtypes.float8_e5m2fnuz],
    "float8_e4m3b11fnuz": ["e4m3b11fnuz", "fp8 e4m3b11", ml_dtypes.float8_e4m3b11fnuz],
    "float8_e4m3": [ml_dtypes.float8_e4m3],
    "float8_e3m4": ["e3m4", "fp8 e3m4", ml_dtypes.float8_e3m4],
    "float6_e3m2fn": ["e3m2fn", "fp6 e3m2", "ocp e3m2", ml_dtypes.float6_e3m2fn],
    "float6_e2m3fn": ["e2m3", "fp6-e2m3", ml_dtypes.float6_e2m3fn],
    "float4_e2m1fn": ["fp4", "e2m1", "fp4 e2m1", ml_dtypes.float4_e2m1fn],
    "float8_e8m0fnu": ["e8m0", "E8M0FNU", ml_dtypes.float8_e8m0fnu],
    "p3109_k8p3se": ["k8p3", "K8P3", "k8p3se", "binary8p3", "P3109 k8p3", "p3109_k8p3se"],
    "p3109_k8p4uf": ["k8p4uf", "p3109_k8p4uf"],
}


@pytest.mark.parametrize(
    ("name", "alias"), [(name, alias) for name in NAMES for alias in (name, *NAMES[name])], ids=str
)
def test_aliases(name, alias):
    assert pr.format(alias).name == name


@pytest.mark.parametrize("name", pr.FORMATS)
def test_names_of_the_catalogue(name):
    fmt = pr.FORMATS[name]
    assert pr.format(name) is pr.format(fmt) is fmt
    assert pr.format(name.upper()) is fmt
    assert fmt.name == name


@pytest.mark.parametrize("name", ["fp8 e4m3", "e4m3", "E4M3", "fp8_e4m3", "float8 e4m3", "fp8-e4m3"])
def test_e4m3_alone_says_which_formats_it_could_mean(name):
    with pytest.raises(OptionError) as caught:
        pr.format(name)
    for meant in ("float8_e4m3fn (max 448, nan)", "float8_e4m3fnuz (max 240, nan)", "float8_e4m3 (max 240, inf, nan)"):
        assert meant in str(caught.value)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("fp8", OptionError, "could mean float8_e5m2, float8_e4m3fn, "),
        ("fp6", OptionError, "could mean float6_e3m2fn .* float6_e2m3fn"),
        ("bfloat61", OptionError, "did you mean bfloat16"),
        ("fp9", OptionError, "did you mean fp8 or fp6 or float4_e2m1fn"),
        ("posit16", OptionError, "format must be the name of a floating-point format, got 'posit16'; there are"),
        ("", OptionError, "got ''; there are binary16"),
        ("mxfp4", OptionError, "one of single numbers, got 'mxfp4'; formats of blocks"),
        (pr.block_format("mxfp4"), OptionError, "one of single numbers, got 'mxfp4'; formats of blocks"),
        (pr.BlockFormat("mine", "fp8 e5m2", 16, "e8m0"), OptionError, "one of single numbers, got 'mine'; formats of"),
        ("int8", OptionError, "got 'int8'"),
        ("k8p9", OptionError, "a precision of 1 to 7 for 8, got 9"),
        ("k8p0", OptionError, "a precision of 1 to 7 for 8, got 0"),
        ("k2p1", OptionError, "at least 3 bits"),
        (np.int8, DTypeError, "floating-point dtype of at most 64 bits"),
        (np.complex64, DTypeError, "floating-point dtype"),
        (None, DTypeError, "got None"),
        (8, DTypeError, "got 8"),
    ],
)
def test_what_is_no_name(name, error, message):
    with pytest.raises(error, match=message):
        pr.format(name)


def test_long_double_is_no_binary128():
    if np.dtype(np.longdouble).itemsize > 8:
        with pytest.raises(DTypeError, match="at most 64 bits"):
            pr.format(np.longdouble)


@pytest.mark.torch
def test_torch_dtypes():
    torch = pytest.importorskip("torch")
    assert pr.format(torch.bfloat16).name == "bfloat16"
    assert pr.format(torch.float32).name == "binary32"
    assert pr.format(torch.float8_e4m3fn).name == "float8_e4m3fn"
    with pytest.raises(DTypeError, match=r"got torch\.int8"):
        pr.format(torch.int8)
    rounded = pr.format("bfloat16").round(torch.tensor([0.3], dtype=torch.float32))
    assert rounded.dtype == torch.float64
    assert rounded.tolist() == [0.30078125]


def test_p3109_of_16_bits():
    assert p3109(16, 11).fraction_bits == 10
    assert p3109(16, 11).max == 65472  # the code of 65504 is that of infinity


def test_names_of_the_package():
    assert {"format", "FORMATS", "FloatFormat"} <= set(dir(pr))
    with pytest.raises(AttributeError, match="no attribute 'formatt'"):
        pr.formatt  # noqa: B018
    with pytest.raises(TypeError):
        pr.FORMATS["mine"] = pr.format("half")
    assert recfact.precision is pr
