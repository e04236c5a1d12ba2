// Number types: what is stored, what it is computed in, and vectors of them in one register file.
//
//   half, __nv_bfloat16, float -> float;  double -> double;  float2 (complex64) -> float2;  double2 -> double2
//
// All rounding is to nearest; a state is rounded once, when it is stored.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "memory.cuh"

template <class A, class B>
constexpr bool same = false;
template <class A>
constexpr bool same<A, A> = true;

template <class T>
struct Accumulator {
    using type = T;
};
template <>
struct Accumulator<half> {
    using type = float;
};
template <>
struct Accumulator<__nv_bfloat16> {
    using type = float;
};

__device__ __forceinline__ float widen(half value) { return __half2float(value); }
__device__ __forceinline__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float widen(float value) { return value; }
__device__ __forceinline__ double widen(double value) { return value; }
__device__ __forceinline__ float2 widen(float2 value) { return value; }
__device__ __forceinline__ double2 widen(double2 value) { return value; }

template <class T>
__device__ __forceinline__ T narrow(typename Accumulator<T>::type value) {
    return value;
}
template <>
__device__ __forceinline__ half narrow<half>(float value) {
    return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float value) {
    return __float2bfloat16_rn(value);
}

template <class N>
__device__ __forceinline__ N number(int value) {
    return static_cast<N>(value);
}
template <>
__device__ __forceinline__ float2 number<float2>(int value) {
    return make_float2(static_cast<float>(value), 0.0f);
}
template <>
__device__ __forceinline__ double2 number<double2>(int value) {
    return make_double2(static_cast<double>(value), 0.0);
}

// a x + u
__device__ __forceinline__ float multiply_add(float a, float x, float u) { return fmaf(a, x, u); }
__device__ __forceinline__ double multiply_add(double a, double x, double u) { return fma(a, x, u); }
__device__ __forceinline__ float2 multiply_add(float2 a, float2 x, float2 u) {
    return make_float2(fmaf(a.x, x.x, fmaf(-a.y, x.y, u.x)), fmaf(a.x, x.y, fmaf(a.y, x.x, u.y)));
}
__device__ __forceinline__ double2 multiply_add(double2 a, double2 x, double2 u) {
    return make_double2(fma(a.x, x.x, fma(-a.y, x.y, u.x)), fma(a.x, x.y, fma(a.y, x.x, u.y)));
}

// a x
__device__ __forceinline__ float multiply(float a, float x) { return a * x; }
__device__ __forceinline__ double multiply(double a, double x) { return a * x; }
__device__ __forceinline__ float2 multiply(float2 a, float2 x) {
    return make_float2(fmaf(a.x, x.x, -a.y * x.y), fmaf(a.x, x.y, a.y * x.x));
}
__device__ __forceinline__ double2 multiply(double2 a, double2 x) {
    return make_double2(fma(a.x, x.x, -a.y * x.y), fma(a.x, x.y, a.y * x.x));
}

// x + y
__device__ __forceinline__ float add(float x, float y) { return x + y; }
__device__ __forceinline__ double add(double x, double y) { return x + y; }
__device__ __forceinline__ float2 add(float2 x, float2 y) { return make_float2(x.x + y.x, x.y + y.y); }
__device__ __forceinline__ double2 add(double2 x, double2 y) { return make_double2(x.x + y.x, x.y + y.y); }

// Neither infinite nor NaN.
__device__ __forceinline__ bool finite_number(float x) { return x - x == 0; }
__device__ __forceinline__ bool finite_number(double x) { return x - x == 0; }
__device__ __forceinline__ bool finite_number(float2 x) { return finite_number(x.x) && finite_number(x.y); }
__device__ __forceinline__ bool finite_number(double2 x) { return finite_number(x.x) && finite_number(x.y); }

// The real type of a number, and SAFE: a magnitude whose square is far from overflow.
template <class N>
struct Magnitude {
    using type = float;
    static constexpr float SAFE = 0x1p60f;
};
template <>
struct Magnitude<double> {
    using type = double;
    static constexpr double SAFE = 0x1p500;
};
template <>
struct Magnitude<double2> : Magnitude<double> {};

// At least the modulus, and of a product at most the product of both.
__device__ __forceinline__ float magnitude(float x) { return fabsf(x); }
__device__ __forceinline__ double magnitude(double x) { return fabs(x); }
__device__ __forceinline__ float magnitude(float2 x) { return fabsf(x.x) + fabsf(x.y); }
__device__ __forceinline__ double magnitude(double2 x) { return fabs(x.x) + fabs(x.y); }

// N numbers that stand next to each other in memory, in registers as they are stored.
template <class T, int N>
struct Vector {
    static constexpr int COUNT = N;
    static constexpr int BYTES = sizeof(T) * N;
    static constexpr int ACCESS_BYTES = BYTES < 16 ? BYTES : 16;  // bytes of one access
    static constexpr int ACCESSES = BYTES / ACCESS_BYTES;
    static constexpr int PER_PACKET = ACCESS_BYTES / sizeof(T);

    union {
        Packet<ACCESS_BYTES> packets[ACCESSES];
        T items[N];
    };

    __device__ __forceinline__ Vector() {}

    __device__ __forceinline__ typename Accumulator<T>::type operator[](int index) const {
        if constexpr (same<T, __nv_bfloat16> && N > 1) {
            // A bfloat16 is the high half of a float: one instruction instead of the two that taking it out costs.
            const unsigned int pair = packets[index / PER_PACKET].words[index % PER_PACKET / 2];
            return __uint_as_float(index % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
        } else {
            return widen(items[index]);
        }
    }
    __device__ __forceinline__ void set(int index, typename Accumulator<T>::type value) {
        items[index] = narrow<T>(value);
    }
    __device__ __forceinline__ void fill(int value) {
#pragma unroll
        for (int k = 0; k < N; ++k) set(k, number<typename Accumulator<T>::type>(value));
    }
    // Hide from the compiler that halves are still the same, by a zero that it doesn't know to be one.
    __device__ __forceinline__ void renew(unsigned int zero) {
#ifndef RECFACT_EMULATOR
        if constexpr (!same<T, typename Accumulator<T>::type> && ACCESS_BYTES >= 4) {
            constexpr int WORDS = ACCESS_BYTES / 4;  // of an access
#pragma unroll
            for (int k = 0; k < BYTES / 4; ++k)
                asm volatile("or.b32 %0, %0, %1;" : "+r"(packets[k / WORDS].words[k % WORDS]) : "r"(zero));
        }
#endif
    }
};

template <class T, int COUNT>
__device__ __forceinline__ Vector<T, COUNT> load_vector(const T* global) {
    using V = Vector<T, COUNT>;
    V value;
#pragma unroll
    for (int k = 0; k < V::ACCESSES; ++k)
        value.packets[k] = load(reinterpret_cast<const Packet<V::ACCESS_BYTES>*>(global) + k);
    return value;
}

template <class T, int COUNT>
__device__ __forceinline__ void store_vector(T* global, const Vector<T, COUNT>& value) {
    using V = Vector<T, COUNT>;
#pragma unroll
    for (int k = 0; k < V::ACCESSES; ++k)
        store(reinterpret_cast<Packet<V::ACCESS_BYTES>*>(global) + k, value.packets[k]);
}
