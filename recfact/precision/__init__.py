"""What number formats and windows cost: formats, rounding, horizons, error bounds, and their exact verification."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recfact.precision import exact
    from recfact.precision.formats.catalogue import FORMATS, format, p3109
    from recfact.precision.formats.float_format import FloatFormat
    from recfact.precision.horizons.actual_horizons import ActualHorizon, actual_horizon
    from recfact.precision.horizons.effective_horizons import EffectiveHorizon, effective_horizon
    from recfact.precision.horizons.horizon import horizon
    from recfact.precision.horizons.horizon_tables import actual_horizon_table, horizon_table
    from recfact.precision.horizons.saturation import saturated, saturation_threshold
    from recfact.precision.materialization.coefficient_families import COEFFICIENT_FAMILIES
    from recfact.precision.materialization.compare_constructions import materialization_table
    from recfact.precision.materialization.construction_errors import MaterializationErrors, materialization_errors
    from recfact.precision.materialization.construction_table import MaterializationTable
    from recfact.precision.materialization.constructions import materialization_bound, rounded_materialize
    from recfact.precision.rounding_errors.arithmetic import Arithmetic
    from recfact.precision.rounding_errors.backward_errors import BackwardError, backward_error, backward_error_bound
    from recfact.precision.rounding_errors.condition_numbers import Condition, condition
    from recfact.precision.rounding_errors.counted_bounds import counted_bound, engine_bound
    from recfact.precision.rounding_errors.error_bounds import forward_bound
    from recfact.precision.rounding_errors.mixed_precision import mixed_precision_bound, mixed_precision_solve
    from recfact.precision.rounding_errors.rounded_algorithms import rounded_solve
    from recfact.precision.rounding_errors.rounding_counts import cast_counts, factor_counts
    from recfact.precision.rounding_errors.running_bounds import running_bound
    from recfact.precision.truncation.posterior_bounds import posterior_truncation_bound, posterior_truncation_norm
    from recfact.precision.truncation.truncation_bounds import pointwise_truncation_bound, truncation_bound
    from recfact.precision.truncation.window_choice import WindowChoice, choose_window
    from recfact.precision.truncation.window_errors import truncation_norm, truncation_witness
    from recfact.precision.verification.result import Verification
    from recfact.precision.verification.sweep import verify_many
    from recfact.precision.verification.sweep_table import SweepTable
    from recfact.precision.verification.verify import verify

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
    "engine_bound",
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
    "COEFFICIENT_FAMILIES": "materialization.coefficient_families",
    "FORMATS": "formats.catalogue",
    "ActualHorizon": "horizons.actual_horizons",
    "Arithmetic": "rounding_errors.arithmetic",
    "BackwardError": "rounding_errors.backward_errors",
    "Condition": "rounding_errors.condition_numbers",
    "EffectiveHorizon": "horizons.effective_horizons",
    "FloatFormat": "formats.float_format",
    "MaterializationErrors": "materialization.construction_errors",
    "MaterializationTable": "materialization.construction_table",
    "SweepTable": "verification.sweep_table",
    "Verification": "verification.result",
    "WindowChoice": "truncation.window_choice",
    "actual_horizon": "horizons.actual_horizons",
    "actual_horizon_table": "horizons.horizon_tables",
    "backward_error": "rounding_errors.backward_errors",
    "backward_error_bound": "rounding_errors.backward_errors",
    "cast_counts": "rounding_errors.rounding_counts",
    "choose_window": "truncation.window_choice",
    "condition": "rounding_errors.condition_numbers",
    "counted_bound": "rounding_errors.counted_bounds",
    "effective_horizon": "horizons.effective_horizons",
    "engine_bound": "rounding_errors.counted_bounds",
    "factor_counts": "rounding_errors.rounding_counts",
    "format": "formats.catalogue",
    "forward_bound": "rounding_errors.error_bounds",
    "horizon": "horizons.horizon",
    "horizon_table": "horizons.horizon_tables",
    "materialization_bound": "materialization.constructions",
    "materialization_errors": "materialization.construction_errors",
    "materialization_table": "materialization.compare_constructions",
    "mixed_precision_bound": "rounding_errors.mixed_precision",
    "mixed_precision_solve": "rounding_errors.mixed_precision",
    "p3109": "formats.catalogue",
    "pointwise_truncation_bound": "truncation.truncation_bounds",
    "posterior_truncation_bound": "truncation.posterior_bounds",
    "posterior_truncation_norm": "truncation.posterior_bounds",
    "rounded_materialize": "materialization.constructions",
    "rounded_solve": "rounding_errors.rounded_algorithms",
    "running_bound": "rounding_errors.running_bounds",
    "saturated": "horizons.saturation",
    "saturation_threshold": "horizons.saturation",
    "truncation_bound": "truncation.truncation_bounds",
    "truncation_norm": "truncation.window_errors",
    "truncation_witness": "truncation.window_errors",
    "verify": "verification.verify",
    "verify_many": "verification.sweep",
}


def __getattr__(name: str) -> Any:
    if name == "exact":  # a module: exact.solve, exact.measure ...
        return import_module("recfact.precision.exact")
    if name in _MODULES:
        return getattr(import_module(f"recfact.precision.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'recfact.precision' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
