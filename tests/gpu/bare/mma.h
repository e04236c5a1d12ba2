// WMMA, bare: every lane holds whole matrices, and sums run in float32 from the first product to the last.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace nvcuda {
namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major { static constexpr bool by_rows = true; };
struct col_major { static constexpr bool by_rows = false; };
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int M, int N, int K, class T, class Order = void>
struct fragment {
    static constexpr int num_elements = 256;
    union {
        float at[16][16];
        float x[num_elements];
    };
};

inline float as_float(half value) { return __half2float(value); }
inline float as_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <class Use, class T, class Order>
void load_matrix_sync(fragment<Use, 16, 16, 16, T, Order>& matrix, const T* from, int row) {
    __syncwarp();
    for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 16; ++j)
            matrix.at[i][j] = as_float(Order::by_rows ? from[i * row + j] : from[j * row + i]);
    __syncwarp();
}
template <class Fragment>
void fill_fragment(Fragment& matrix, float value) {
    for (float& item : matrix.x) item = value;
}
template <class C, class A, class B>
void mma_sync(C& result, const A& a, const B& b, const C& c) {
    // What one lane has multiplied, the others ask for again: two products are kept, at first of zeros.
    struct Product {
        A a;
        B b;
        C c, sum;
    };
    static Product known[2];
    static int oldest = 0;
    auto same = [](const auto& p, const auto& q) { return memcmp(&p, &q, sizeof p) == 0; };
    for (const Product& one : known)
        if (same(one.a, a) && same(one.b, b) && same(one.c, c)) {
            result = one.sum;
            return;
        }
    C sum = c;
    for (int i = 0; i < 16; ++i)
        for (int k = 0; k < 16; ++k)
            for (int j = 0; j < 16; ++j) sum.at[i][j] += a.at[i][k] * b.at[k][j];
    known[oldest] = {a, b, c, sum};
    oldest = 1 - oldest;
    result = sum;
}
template <class Fragment>
void store_matrix_sync(float* to, const Fragment& matrix, int row, layout_t order) {
    __syncwarp();
    for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 16; ++j) to[order == mem_row_major ? i * row + j : j * row + i] = matrix.at[i][j];
    __syncwarp();
}

}  // namespace wmma
}  // namespace nvcuda
