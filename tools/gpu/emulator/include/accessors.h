// The memory functions of recfact/gpu/kernels/memory.cuh as the emulator supplies them: same names, checked and counted.
//
// Pointers to global memory are virtual addresses and never followed directly. Shared arrays are declared the CUDA way
// (`__shared__ T name[N]`, `extern __shared__ T name[]`); each thread block has its own storage for them, which only
// these functions reach. A pointer of either kind may be passed wherever a pointer is asked for.
#pragma once
#include <cstring>

#include "builtins.h"

#define EMULATOR_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

namespace emulator {

void read_memory(void* to, const void* from, unsigned size, Site site);
void write_memory(void* to, const void* from, unsigned size, Site site);
void start_copy(void* shared, const void* global, unsigned size, unsigned valid, Site site);
void commit_copies();
void wait_copies(unsigned newest_left_alone, Site site);
enum class Strength : int { relaxed, ordered };
uint64_t read_strong(const void* from, unsigned size, Strength strength, Site site);
void write_strong(void* to, uint64_t value, unsigned size, Strength strength, Site site);
enum class Atomic : int { add, exchange, compare, minimum, maximum, signed_minimum, signed_maximum, both, either, add_float, add_double };
uint64_t read_modify_write(Atomic what, void* at, unsigned size, uint64_t value, uint64_t compare, Site site);
void fence(bool device_wide);

template <class T>
constexpr void check_size() {
  static_assert(sizeof(T) <= 16 && (sizeof(T) & (sizeof(T) - 1)) == 0, "memory moves in 1, 2, 4, 8 or 16 bytes");
}
template <class T>
uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= 8, "at most 8 bytes at once");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}
template <class T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  return value;
}

}  // namespace emulator

template <class T>
inline T load(const T* from, EMULATOR_SITE) {
  emulator::check_size<T>();
  T value;
  emulator::read_memory(&value, from, sizeof(T), {file, line});
  return value;
}
template <class T>
inline void store(T* to, T value, EMULATOR_SITE) {
  emulator::check_size<T>();
  emulator::write_memory(to, &value, sizeof(T), {file, line});
}
inline uint4 load16(const void* from, EMULATOR_SITE) { return load(static_cast<const uint4*>(from), file, line); }
inline void store16(void* to, uint4 value, EMULATOR_SITE) { store(static_cast<uint4*>(to), value, file, line); }

template <class T>
inline T load_shared(const T* from, EMULATOR_SITE) {
  return load(from, file, line);
}
template <class T>
inline void store_shared(T* to, T value, EMULATOR_SITE) {
  store(to, value, file, line);
}

// 16 bytes from global to shared memory behind the thread's back; the bytes from `valid` on become zero.
inline void copy16_async(void* shared, const void* global, int valid = 16, EMULATOR_SITE) {
  emulator::start_copy(shared, global, 16, static_cast<unsigned>(valid), {file, line});
}
inline void copy8_async(void* shared, const void* global, int valid = 8, EMULATOR_SITE) {
  emulator::start_copy(shared, global, 8, static_cast<unsigned>(valid), {file, line});
}
inline void copy4_async(void* shared, const void* global, int valid = 4, EMULATOR_SITE) {
  emulator::start_copy(shared, global, 4, static_cast<unsigned>(valid), {file, line});
}
inline void commit_async() { emulator::commit_copies(); }
template <int groups>
inline void wait_async(EMULATOR_SITE) {
  emulator::wait_copies(groups, {file, line});
}

template <class T>
inline T load_acquire(const T* from, EMULATOR_SITE) {
  return emulator::from_bits<T>(emulator::read_strong(from, sizeof(T), emulator::Strength::ordered, {file, line}));
}
template <class T>
inline T load_relaxed(const T* from, EMULATOR_SITE) {
  return emulator::from_bits<T>(emulator::read_strong(from, sizeof(T), emulator::Strength::relaxed, {file, line}));
}
template <class T>
inline void store_release(T* to, T value, EMULATOR_SITE) {
  emulator::write_strong(to, emulator::to_bits(value), sizeof(T), emulator::Strength::ordered, {file, line});
}
template <class T>
inline void store_relaxed(T* to, T value, EMULATOR_SITE) {
  emulator::write_strong(to, emulator::to_bits(value), sizeof(T), emulator::Strength::relaxed, {file, line});
}

// A shared array that knows its length.
template <class T>
struct shared_array {
  T* data;
  int length;
  T load(int i, EMULATOR_SITE) const {
    check(i, file, line);
    return ::load(data + i, file, line);
  }
  void store(int i, T value, EMULATOR_SITE) const {
    check(i, file, line);
    ::store(data + i, value, file, line);
  }

 private:
  void check(int i, const char* file, int line) const;
};

namespace emulator {
void index_fault(int index, int length, Site site);
}
template <class T>
void shared_array<T>::check(int i, const char* file, int line) const {
  if (i < 0 || i >= length) emulator::index_fault(i, length, {file, line});
}

namespace emulator {
template <class T>
T atomic(Atomic what, T* at, T value, T compare, Site site) {
  return from_bits<T>(read_modify_write(what, at, sizeof(T), to_bits(value), to_bits(compare), site));
}
}  // namespace emulator

#define EMULATOR_ATOMIC(name, what, T)                                                  \
  inline T name(T* at, T value, EMULATOR_SITE) {                                        \
    return emulator::atomic<T>(emulator::Atomic::what, at, value, static_cast<T>(0), {file, line}); \
  }
#define EMULATOR_ATOMICS(T, least, most)                                                            \
  EMULATOR_ATOMIC(atomicAdd, add, T)                                                    \
  EMULATOR_ATOMIC(atomicExch, exchange, T)                                              \
  EMULATOR_ATOMIC(atomicMin, least, T)                                                \
  EMULATOR_ATOMIC(atomicMax, most, T)                                                \
  EMULATOR_ATOMIC(atomicAnd, both, T)                                                   \
  EMULATOR_ATOMIC(atomicOr, either, T)                                                  \
  inline T atomicCAS(T* at, T compare, T value, EMULATOR_SITE) {                        \
    return emulator::atomic<T>(emulator::Atomic::compare, at, value, compare, {file, line}); \
  }
EMULATOR_ATOMICS(int, signed_minimum, signed_maximum)
EMULATOR_ATOMICS(unsigned, minimum, maximum)
EMULATOR_ATOMICS(unsigned long long, minimum, maximum)
EMULATOR_ATOMIC(atomicAdd, add_float, float)
EMULATOR_ATOMIC(atomicAdd, add_double, double)
#undef EMULATOR_ATOMICS
#undef EMULATOR_ATOMIC

inline void __threadfence() { emulator::fence(true); }
inline void __threadfence_block() { emulator::fence(false); }
