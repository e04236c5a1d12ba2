// Every access to memory outside registers: global, shared, and the copies between them.
//
// On a GPU these are plain accesses and a few lines of PTX. With RECFACT_EMULATOR a header of the tests supplies the
// same names for the CPU and sees that accesses are aligned, so nothing in a kernel may touch memory in another way.
//
//   load(p), store(p, value)            global memory, one access of sizeof(T) bytes: T is a scalar or a Packet
//   load_if(p, here), store_if(p, value, here)  of 2, 4 or 16 bytes where `here`, without a branch: a branch would keep
//                                       the compiler from moving what stands before and behind it together; 0 elsewhere
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

// Under a predicate: a branch instead would keep the compiler from going on with what stands behind it.
#define RECFACT_IF(here, instruction) \
    "{\n.reg .pred %%here;\nsetp.ne.s32 %%here, " here ", 0;\n@%%here " instruction ";\n}"

template <class T>
__device__ __forceinline__ T load_if(const T* global, bool here) {
    static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 16, "no access of so many bytes");
    T value;
    if constexpr (sizeof(T) == 2) {
        unsigned short bits = 0;
        asm volatile(RECFACT_IF("%2", "ld.global.u16 %0, [%1]")
                     : "+h"(bits) : "l"(global), "r"(static_cast<int>(here)));
        memcpy(&value, &bits, sizeof value);
    } else if constexpr (sizeof(T) == 4) {
        unsigned int bits = 0;
        asm volatile(RECFACT_IF("%2", "ld.global.u32 %0, [%1]")
                     : "+r"(bits) : "l"(global), "r"(static_cast<int>(here)));
        memcpy(&value, &bits, sizeof value);
    } else {
        unsigned int words[4] = {0, 0, 0, 0};
        asm volatile(RECFACT_IF("%5", "ld.global.v4.u32 {%0, %1, %2, %3}, [%4]")
                     : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3])
                     : "l"(global), "r"(static_cast<int>(here)));
        memcpy(&value, words, sizeof value);
    }
    return value;
}

__device__ __forceinline__ void store_if(Packet<16>* global, Packet<16> value, bool here) {
    asm volatile(RECFACT_IF("%5", "st.global.v4.u32 [%0], {%1, %2, %3, %4}") ::"l"(global), "r"(value.words[0]),
                 "r"(value.words[1]), "r"(value.words[2]), "r"(value.words[3]), "r"(static_cast<int>(here))
                 : "memory");
}

template <class T>
__device__ __forceinline__ T load_shared(const T* shared) {
    return load(shared);
}

template <class T>
__device__ __forceinline__ void store_shared(T* shared, T value) {
    store(shared, value);
}

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
