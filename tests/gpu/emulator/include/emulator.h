// An emulator of one GPU for recfact's kernels: see docs at the end of the list below.
#pragma once
#include "builtins.h"
#include "accessors.h"
#include "warp.h"
#include "entry.h"
#include "shared_range.h"
