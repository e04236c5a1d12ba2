// Every access to memory outside registers: global, shared, and the copies between them.
//
// On a GPU these are plain accesses and a few lines of PTX. With RECFACT_EMULATOR a header of the tests supplies the
// same names for the CPU and sees that accesses are aligned, so nothing in a kernel may touch memory in another way.
//
//   load(p), store(p, value)            global memory, one access of sizeof(T) bytes: T is a scalar or a Packet
//   load_shared(p), store_shared(p, v)  shared memory, likewise
//   copy16_async(shared, global, valid) 16 bytes from global to shared memory without waiting; 0 from byte `valid` on
//   commit_async(), wait_async<N>()     close a group of such copies; wait until at most N groups are under way
//   load_acquire(p), store_release(p, v)  flags between thread blocks: what was stored before the release is seen
//                                       after the acquire (the whole warp's with a __syncwarp on both sides)
//   wait_briefly()                      let others go on, before a flag is looked at again
//   block_barrier()                     all warps of a thread block, wherever in the code each is: PTX has barriers so,
//                                       and CUDA promises it of __syncthreads at one place only
#pragma once

// An aligned group of bytes that moves in one access: 1, 2, 4, 8 or 16 of them.
template <int BYTES>
struct alignas(BYTES) Packet {
    unsigned char bytes[BYTES];
};
template <>
struct alignas(4) Packet<4> {
    unsigned int words[1];
};
template <>
struct alignas(8) Packet<8> {
    unsigned int words[2];
};
template <>
struct alignas(16) Packet<16> {
    unsigned int words[4];
};

#ifdef RECFACT_EMULATOR

#include "accessors.h"

#else

template <class T>
__device__ __forceinline__ T load(const T* global) {
    return *global;
}

template <class T>
__device__ __forceinline__ void store(T* global, T value) {
    *global = value;
}

template <>
__device__ __forceinline__ Packet<16> load(const Packet<16>* global) {
    const uint4 word = *reinterpret_cast<const uint4*>(global);
    return {{word.x, word.y, word.z, word.w}};
}

template <>
__device__ __forceinline__ void store(Packet<16>* global, Packet<16> value) {
    *reinterpret_cast<uint4*>(global) = make_uint4(value.words[0], value.words[1], value.words[2], value.words[3]);
}

template <class T>
__device__ __forceinline__ T load_shared(const T* shared) {
    return load(shared);
}

template <class T>
__device__ __forceinline__ void store_shared(T* shared, T value) {
    store(shared, value);
}

#if __CUDA_ARCH__ >= 800

__device__ __forceinline__ void copy16_async(void* shared, const void* global, int valid) {
    const unsigned int target = static_cast<unsigned int>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(global), "r"(valid) : "memory");
}

__device__ __forceinline__ void commit_async() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int GROUPS>
__device__ __forceinline__ void wait_async() {
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}

#else  // before sm_80 a copy goes through registers, is done when it returns, and is of 16 bytes or none

__device__ __forceinline__ void copy16_async(void* shared, const void* global, int valid) {
    Packet<16> value = {{0, 0, 0, 0}};
    if (valid) value = load(static_cast<const Packet<16>*>(global));
    store(static_cast<Packet<16>*>(shared), value);
}

__device__ __forceinline__ void commit_async() {}

template <int GROUPS>
__device__ __forceinline__ void wait_async() {}

#endif

__device__ __forceinline__ void block_barrier() {
    asm volatile("barrier.sync.aligned 0;" ::: "memory");
}

__device__ __forceinline__ void wait_briefly() {
    __nanosleep(32);
}

__device__ __forceinline__ unsigned int load_acquire(const unsigned int* flag) {
    unsigned int value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}

__device__ __forceinline__ void store_release(unsigned int* flag, unsigned int value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}

#endif
