"""What number formats and windows cost: formats, rounding, horizons, error bounds, and their exact verification."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recfact.precision import exact
    from recfact.precision.actual_horizons import ActualHorizon, actual_horizon
    from recfact.precision.arithmetic import Arithmetic
    from recfact.precision.backward_errors import BackwardError, backward_error, backward_error_bound
    from recfact.precision.catalogue import FORMATS, format, p3109
    from recfact.precision.coefficient_families import COEFFICIENT_FAMILIES
    from recfact.precision.compare_constructions import materialization_table
    from recfact.precision.condition_numbers import Condition, condition
    from recfact.precision.construction_errors import MaterializationErrors, materialization_errors
    from recfact.precision.construction_table import MaterializationTable
    from recfact.precision.effective_horizons import EffectiveHorizon, effective_horizon
    from recfact.precision.error_bounds import forward_bound
    from recfact.precision.formats import FloatFormat
    from recfact.precision.horizon_tables import actual_horizon_table, horizon_table
    from recfact.precision.horizons import horizon
    from recfact.precision.materialization import materialization_bound, rounded_materialize
    from recfact.precision.mixed_precision import mixed_precision_bound, mixed_precision_solve
    from recfact.precision.posterior_bounds import posterior_truncation_bound, posterior_truncation_norm
    from recfact.precision.rounded_algorithms import rounded_solve
    from recfact.precision.rounding_counts import cast_counts, counted_bound, factor_counts
    from recfact.precision.running_bounds import running_bound
    from recfact.precision.saturation import saturated, saturation_threshold
    from recfact.precision.sweep import verify_many
    from recfact.precision.sweep_table import SweepTable
    from recfact.precision.truncation_bounds import pointwise_truncation_bound, truncation_bound
    from recfact.precision.verification import verify
    from recfact.precision.verification_result import Verification
    from recfact.precision.window_choice import WindowChoice, choose_window
    from recfact.precision.window_errors import truncation_norm, truncation_witness

__all__ = [
    "COEFFICIENT_FAMILIES",
    "FORMATS",
    "ActualHorizon",
    "Arithmetic",
    "BackwardError",
    "Condition",
    "EffectiveHorizon",
    "FloatFormat",
    "MaterializationErrors",
    "MaterializationTable",
    "SweepTable",
    "Verification",
    "WindowChoice",
    "actual_horizon",
    "actual_horizon_table",
    "backward_error",
    "backward_error_bound",
    "cast_counts",
    "choose_window",
    "condition",
    "counted_bound",
    "effective_horizon",
    "exact",
    "factor_counts",
    "format",
    "forward_bound",
    "horizon",
    "horizon_table",
    "materialization_bound",
    "materialization_errors",
    "materialization_table",
    "mixed_precision_bound",
    "mixed_precision_solve",
    "p3109",
    "pointwise_truncation_bound",
    "posterior_truncation_bound",
    "posterior_truncation_norm",
    "rounded_materialize",
    "rounded_solve",
    "running_bound",
    "saturated",
    "saturation_threshold",
    "truncation_bound",
    "truncation_norm",
    "truncation_witness",
    "verify",
    "verify_many",
]

# Each public name and the module that it is loaded from on first use.
_MODULES = {
    "COEFFICIENT_FAMILIES": "coefficient_families",
    "FORMATS": "catalogue",
    "ActualHorizon": "actual_horizons",
    "Arithmetic": "arithmetic",
    "BackwardError": "backward_errors",
    "Condition": "condition_numbers",
    "EffectiveHorizon": "effective_horizons",
    "FloatFormat": "formats",
    "MaterializationErrors": "construction_errors",
    "MaterializationTable": "construction_table",
    "SweepTable": "sweep_table",
    "Verification": "verification_result",
    "WindowChoice": "window_choice",
    "actual_horizon": "actual_horizons",
    "actual_horizon_table": "horizon_tables",
    "backward_error": "backward_errors",
    "backward_error_bound": "backward_errors",
    "cast_counts": "rounding_counts",
    "choose_window": "window_choice",
    "condition": "condition_numbers",
    "counted_bound": "rounding_counts",
    "effective_horizon": "effective_horizons",
    "factor_counts": "rounding_counts",
    "format": "catalogue",
    "forward_bound": "error_bounds",
    "horizon": "horizons",
    "horizon_table": "horizon_tables",
    "materialization_bound": "materialization",
    "materialization_errors": "construction_errors",
    "materialization_table": "compare_constructions",
    "mixed_precision_bound": "mixed_precision",
    "mixed_precision_solve": "mixed_precision",
    "p3109": "catalogue",
    "pointwise_truncation_bound": "truncation_bounds",
    "posterior_truncation_bound": "posterior_bounds",
    "posterior_truncation_norm": "posterior_bounds",
    "rounded_materialize": "materialization",
    "rounded_solve": "rounded_algorithms",
    "running_bound": "running_bounds",
    "saturated": "saturation",
    "saturation_threshold": "saturation",
    "truncation_bound": "truncation_bounds",
    "truncation_norm": "window_errors",
    "truncation_witness": "window_errors",
    "verify": "verification",
    "verify_many": "sweep",
}


def __getattr__(name: str) -> Any:
    if name == "exact":  # a module: exact.solve, exact.measure ...
        return import_module("recfact.precision.exact")
    if name in _MODULES:
        return getattr(import_module(f"recfact.precision.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'recfact.precision' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
