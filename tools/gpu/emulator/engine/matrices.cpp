// Warp matrix operations: their product, and their traffic as sm_80 and later compile them.
#include "mma.h"

#include <cmath>
#include <cstring>

#include "engine.h"

namespace emulator {

void check_matrix_pointer(Collective& together, uint64_t pointer, uint32_t stride, unsigned element_bytes, Site site) {
  const bool first = !together.arrived;
  if (!first && (together.pointer != pointer || together.stride != stride))
    fault("matrix pointer", "lanes of a warp bring different pointers or strides to a matrix operation", site);
  together.pointer = pointer;
  together.stride = stride;
  if (!first) return;
  if (pointer % 32) fault("matrix pointer", "a matrix must begin at a multiple of 32 bytes", site);
  if (stride * element_bytes % 16) fault("matrix pointer", "a matrix's stride must be a multiple of 16 bytes", site);
}

namespace {

// The warp instructions that move the matrix. Two-byte elements from shared memory: ldmatrix, a line's 16 bytes for each lane of
// a phase. Else as mma's own layout has it: a lane holds two neighbours of a line in each quarter of the matrix, which move as
// one access where they are neighbours in memory and the line's layout allows.
void matrix_traffic(const Collective& together, MatrixAccess access, bool write, Site site) {
  const uint64_t line_bytes = static_cast<uint64_t>(together.stride) * access.element_bytes;
  uint64_t addresses[warp_lanes];
  uint8_t lanes[warp_lanes];
  for (uint8_t lane = 0; lane < warp_lanes; ++lane) lanes[lane] = lane;
  const bool shared = is_shared(together.pointer);
  const Space space = shared ? (write ? Space::shared_write : Space::shared_read) : (write ? Space::global_write : Space::global_read);
  if (shared && access.element_bytes == 2) {
    for (int lane = 0; lane < warp_lanes; ++lane)
      addresses[lane] = together.pointer + static_cast<uint64_t>(lane % 16) * line_bytes + static_cast<uint64_t>(lane / 16) * 16;
    count_group(site, space, 16, addresses, lanes, warp_lanes);
    return;
  }
  for (unsigned quarter = 0; quarter < 4; ++quarter) {
    for (unsigned lane = 0; lane < warp_lanes; ++lane)
      addresses[lane] = together.pointer + (lane / 4 + quarter % 2 * 8) * line_bytes + (lane % 4 * 2 + quarter / 2 * 8) * access.element_bytes;
    count_group(site, space, 2 * access.element_bytes, addresses, lanes, warp_lanes);
  }
}

}  // namespace

void read_matrix(Collective& together, MatrixAccess access, Site site) {
  const uint64_t line_bytes = static_cast<uint64_t>(together.stride) * access.element_bytes;
  matrix_traffic(together, access, false, site);
  for (uint64_t line = 0; line < 16; ++line)
    for (uint64_t part = 0; part < access.element_bytes; ++part) {  // 16 bytes each
      const uint64_t address = together.pointer + line * line_bytes + part * 16;
      unsigned char* into = together.matrix[0] + line * 16 * access.element_bytes + part * 16;
      if (is_shared(address)) shared_read(into, address, 16, true, site);
      else global_read(into, address, 16, true, site);
    }
}

void write_matrix(Collective& together, MatrixAccess access, Site site) {
  const uint64_t line_bytes = static_cast<uint64_t>(together.stride) * access.element_bytes;
  matrix_traffic(together, access, true, site);
  for (uint64_t line = 0; line < 16; ++line)
    for (uint64_t part = 0; part < access.element_bytes; ++part) {
      const uint64_t address = together.pointer + line * line_bytes + part * 16;
      const unsigned char* from = together.matrix[0] + line * 16 * access.element_bytes + part * 16;
      if (is_shared(address)) shared_write(address, from, 16, true, site);
      else global_write(address, from, 16, true, site);
    }
}

namespace {

// As tensor cores are known to add: the accumulator and the products of four terms (eight on later GPUs) are aligned to the
// largest of them, cut to 24 bits below it, added, and the sum is cut to single precision.
float cut_sum(const float* products, int count, float start) {
  double largest = std::fabs(static_cast<double>(start));
  for (int i = 0; i < count; ++i) largest = std::fmax(largest, std::fabs(static_cast<double>(products[i])));
  if (!(largest > 0) || !std::isfinite(largest)) {
    float sum = start;
    for (int i = 0; i < count; ++i) sum += products[i];
    return sum;
  }
  const double unit = std::ldexp(1.0, std::ilogb(largest) - 24);
  double sum = std::trunc(static_cast<double>(start) / unit);
  for (int i = 0; i < count; ++i) sum += std::trunc(static_cast<double>(products[i]) / unit);
  sum *= unit;
  const float nearest = static_cast<float>(sum);
  return std::fabs(static_cast<double>(nearest)) > std::fabs(sum) ? std::nextafter(nearest, 0.0f) : nearest;
}

}  // namespace

void multiply_matrices(Collective& together, unsigned short kind, Site) {
  float A[256], B[256];
  const auto* a = reinterpret_cast<const unsigned short*>(together.matrix[0]);
  const auto* b = reinterpret_cast<const unsigned short*>(together.matrix[1]);
  const auto* C = reinterpret_cast<const float*>(together.matrix[2]);
  auto* D = reinterpret_cast<float*>(together.matrix[3]);
  for (int i = 0; i < 256; ++i) {
    A[i] = kind == 16 ? half_to_float(a[i]) : bfloat16_to_float(a[i]);
    B[i] = kind == 16 ? half_to_float(b[i]) : bfloat16_to_float(b[i]);
  }
  if (machine.request.truncate_products) {
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 16; ++column) {
        float sum = C[row * 16 + column], products[4];
        for (int k = 0; k < 16; k += 4) {
          for (int j = 0; j < 4; ++j) products[j] = A[row * 16 + k + j] * B[(k + j) * 16 + column];
          sum = cut_sum(products, 4, sum);
        }
        D[row * 16 + column] = sum;
      }
    return;
  }
  for (int row = 0; row < 16; ++row) {
    float sums[16];
    std::memcpy(sums, C + row * 16, sizeof sums);
    for (int k = 0; k < 16; ++k)
      for (int column = 0; column < 16; ++column) sums[column] += A[row * 16 + k] * B[k * 16 + column];
    std::memcpy(D + row * 16, sums, sizeof sums);
  }
}

void copies_differ(Site site) {
  fault("fragment copies differ", "the two copies of a fragment's element differ: every element must be treated alike", site);
}

}  // namespace emulator
