// Stands in for CUDA's mma.h: 16x16x16 warp matrix fragments of half or bfloat16, accumulated in single precision.
//
// Which lane holds which element is NVIDIA's secret and changes from GPU to GPU; here it is a permutation that no GPU has,
// another one for each use, and every element of A and B is held twice, as on some. Code that gets by with that is portable.
// How the elements come from and go to memory is counted as on sm_80 and later: see matrix_traffic in engine/matrices.cpp.
#pragma once
#include "cuda_bf16.h"

namespace emulator {

enum class Use : int { a, b, accumulator };

struct MatrixAccess {
  unsigned element_bytes;
  bool accumulator;
};
// What a warp does to memory once all lanes have come; lines are the rows of a row-major matrix.
void read_matrix(Collective& together, MatrixAccess access, Site site);
void write_matrix(Collective& together, MatrixAccess access, Site site);
void check_matrix_pointer(Collective& together, uint64_t pointer, uint32_t stride, unsigned element_bytes, Site site);
void multiply_matrices(Collective& together, unsigned short kind, Site site);  // kind: 16 for half, 17 for bfloat16
void copies_differ(Site site);

// Where element `i` of a lane's fragment is in the matrix, as row * 16 + column.
constexpr int place(Use use, int lane, int i) {
  const int linear = use == Use::accumulator ? lane * 8 + i : lane * 8 + (i ^ lane) % 8;
  return (linear * (use == Use::a ? 37 : use == Use::b ? 91 : 173) + (use == Use::a ? 11 : use == Use::b ? 5 : 59)) & 255;
}

template <class T>
constexpr unsigned short kind_of() {
  return sizeof(T) == 4 ? 32 : std::is_same_v<T, __half> ? 16 : 17;
}

}  // namespace emulator

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

template <class What, int m, int n, int k, class T, class Layout = void>
struct fragment {
  static_assert(m == 16 && n == 16 && k == 16, "only 16x16x16 is emulated");
  static constexpr emulator::Use use = std::is_same_v<What, matrix_a>   ? emulator::Use::a
                                       : std::is_same_v<What, matrix_b> ? emulator::Use::b
                                                                        : emulator::Use::accumulator;
  static constexpr bool held_twice = use != emulator::Use::accumulator;
  static_assert(held_twice ? sizeof(T) == 2 : std::is_same_v<T, float>, "half or bfloat16 times the same, into float");
  static constexpr int num_elements = held_twice ? 16 : 8;
  using element_type = T;
  T x[num_elements];
};

template <class What, int m, int n, int k, class T, class Layout>
inline void fill_fragment(fragment<What, m, n, k, T, Layout>& into, const T& value) {
  for (T& element : into.x) element = value;
}

namespace emulated {

template <class Fragment, class T>
void load(Fragment& into, const T* from, unsigned stride, bool by_rows, emulator::Site site) {
  using namespace emulator;
  do_together(
      Together::load_matrix, 0xffffffffu, site,
      [&](Collective& c) { check_matrix_pointer(c, reinterpret_cast<uint64_t>(from), stride, sizeof(T), site); },
      [&](Collective& c) { read_matrix(c, {sizeof(T), Fragment::use == Use::accumulator}, site); },
      [&](Collective& c) {
        const T* elements = reinterpret_cast<const T*>(c.matrix[0]);
        for (int i = 0; i < Fragment::num_elements; ++i) {
          const int at = place(Fragment::use, current->lane, i % 8), row = at / 16, column = at % 16;
          into.x[i] = elements[by_rows ? at : column * 16 + row];
        }
        return 0;
      });
}

}  // namespace emulated

template <class What, int m, int n, int k, class T, class Layout>
inline void load_matrix_sync(fragment<What, m, n, k, T, Layout>& into, const T* from, unsigned stride, EMULATOR_SITE) {
  static_assert(!std::is_void_v<Layout>, "an accumulator is loaded with its layout as the last argument");
  emulated::load(into, from, stride, std::is_same_v<Layout, row_major>, {file, line});
}
template <int m, int n, int k, class T>
inline void load_matrix_sync(fragment<accumulator, m, n, k, T>& into, const T* from, unsigned stride, layout_t layout, EMULATOR_SITE) {
  emulated::load(into, from, stride, layout == mem_row_major, {file, line});
}
template <int m, int n, int k, class T>
inline void store_matrix_sync(T* to, const fragment<accumulator, m, n, k, T>& from, unsigned stride, layout_t layout, EMULATOR_SITE) {
  using namespace emulator;
  const Site site{file, line};
  do_together(
      Together::store_matrix, 0xffffffffu, site,
      [&](Collective& c) {
        check_matrix_pointer(c, reinterpret_cast<uint64_t>(to), stride, sizeof(T), site);
        T* elements = reinterpret_cast<T*>(c.matrix[0]);
        for (int i = 0; i < 8; ++i) {
          const int at = place(Use::accumulator, current->lane, i), row = at / 16, column = at % 16;
          elements[layout == mem_row_major ? at : column * 16 + row] = from.x[i];
        }
      },
      [&](Collective& c) { write_matrix(c, {sizeof(T), true}, site); }, [](Collective&) { return 0; });
}

template <class T, class LayoutA, class LayoutB>
inline void mma_sync(fragment<accumulator, 16, 16, 16, float>& d, const fragment<matrix_a, 16, 16, 16, T, LayoutA>& a,
                     const fragment<matrix_b, 16, 16, 16, T, LayoutB>& b, const fragment<accumulator, 16, 16, 16, float>& c, EMULATOR_SITE) {
  using namespace emulator;
  const Site site{file, line};
  do_together(
      Together::multiply, 0xffffffffu, site,
      [&](Collective& together) {
        auto A = reinterpret_cast<unsigned short*>(together.matrix[0]), B = reinterpret_cast<unsigned short*>(together.matrix[1]);
        auto C = reinterpret_cast<float*>(together.matrix[2]);
        for (int i = 0; i < 8; ++i) {
          if (a.x[i].bits != a.x[i + 8].bits || b.x[i].bits != b.x[i + 8].bits) copies_differ(site);
          A[place(Use::a, current->lane, i)] = a.x[i].bits;
          B[place(Use::b, current->lane, i)] = b.x[i].bits;
          C[place(Use::accumulator, current->lane, i)] = c.x[i];
        }
      },
      [&](Collective& together) { multiply_matrices(together, kind_of<T>(), site); },
      [&](Collective& together) {
        const auto D = reinterpret_cast<const float*>(together.matrix[3]);
        for (int i = 0; i < 8; ++i) d.x[i] = D[place(Use::accumulator, current->lane, i)];
        return 0;
      });
}

}  // namespace nvcuda::wmma
