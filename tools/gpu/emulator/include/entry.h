// How the engine calls a kernel: the parameters come as an array of pointers to their values, as cuLaunchKernel takes them.
#pragma once
#include <cstddef>
#include <type_traits>
#include <utility>

namespace emulator {

void enter_kernel(void** parameters);

template <class... Parameters, size_t... I>
void call(void (*kernel)(Parameters...), void** parameters, std::index_sequence<I...>) {
  kernel(*static_cast<std::remove_reference_t<Parameters>*>(parameters[I])...);
}
template <class... Parameters>
void call(void (*kernel)(Parameters...), void** parameters) {
  call(kernel, parameters, std::index_sequence_for<Parameters...>{});
}
template <class... Parameters>
int sizes(void (*)(Parameters...), int* into) {
  const int all[] = {0, (std::is_pointer_v<Parameters> ? -8 : static_cast<int>(sizeof(Parameters)))...};
  for (size_t i = 0; i < sizeof...(Parameters); ++i) into[i] = all[i + 1];
  return static_cast<int>(sizeof...(Parameters));
}

}  // namespace emulator

// What the build helper adds behind the kernel's source.
#define EMULATOR_ENTRY(kernel)                                                                       \
  void emulator::enter_kernel(void** parameters) { emulator::call(kernel, parameters); }             \
  extern "C" __attribute__((visibility("default"))) int emulator_parameters(int* sizes) {            \
    return emulator::sizes(kernel, sizes);                                                           \
  }
