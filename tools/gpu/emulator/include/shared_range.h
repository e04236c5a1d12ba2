// Where the kernel's shared arrays are; the build helper defines these behind the kernel's source.
#pragma once

namespace emulator {

constexpr unsigned long dynamic_shared_room = 232448;  // more than any GPU lends to a block

void touch_shared();           // makes the thread-local segment exist
void* dynamic_shared_begin();  // null where the kernel declares no dynamic shared memory

}  // namespace emulator
