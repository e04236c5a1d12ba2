// 16x16 matrices from shared memory to the fragments of WMMA.
//
//   load_fragment(fragment, shared, row)   row = numbers from one row in memory to the next
//
// This is wmma::load_matrix_sync. For bfloat16 NVRTC doesn't notice that the pointer is to shared memory, and takes
// four generic loads (and four moves to transpose) where one LDSM does it, so there the instruction of PTX that the
// function stands for is written out with its state space.
#pragma once

#include <mma.h>

#include "memory.cuh"

template <class Fragment, class T>
__device__ __forceinline__ void load_fragment(Fragment& fragment, const T* shared, int row) {
    nvcuda::wmma::load_matrix_sync(fragment, shared, row);
}

#ifndef RECFACT_EMULATOR
#if __CUDA_ARCH__ >= 800

#define RECFACT_LOAD_FRAGMENT(USE, LETTER, ORDER, NAME)                                                               \
    __device__ __forceinline__ void load_fragment(                                                                    \
        nvcuda::wmma::fragment<nvcuda::wmma::USE, 16, 16, 16, __nv_bfloat16, nvcuda::wmma::ORDER>& fragment,          \
        const __nv_bfloat16* shared, int row) {                                                                       \
        unsigned int words[4];                                                                                        \
        asm volatile("wmma.load." LETTER ".sync.aligned." NAME ".m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4], %5;"  \
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])                                 \
                     : "r"(static_cast<unsigned int>(__cvta_generic_to_shared(shared))), "r"(row)                     \
                     : "memory");                                                                                     \
        static_assert(sizeof(fragment.x) == sizeof(words), "a fragment is four words");                              \
        memcpy(fragment.x, words, sizeof(words));                                                                     \
    }

RECFACT_LOAD_FRAGMENT(matrix_a, "a", row_major, "row")
RECFACT_LOAD_FRAGMENT(matrix_b, "b", row_major, "row")
RECFACT_LOAD_FRAGMENT(matrix_b, "b", col_major, "col")
#undef RECFACT_LOAD_FRAGMENT

#endif
#endif
