// Memory, bare: what memory.cuh offers, as plain accesses. Those that aren't aligned, which a GPU refuses, are counted.
#pragma once

namespace bare {
inline void see(const void* place, size_t size) { misaligned += reinterpret_cast<uintptr_t>(place) % size != 0; }
}  // namespace bare

template <class T>
T load(const T* from) {
    bare::see(from, sizeof(T));
    T value;
    memcpy(&value, from, sizeof value);
    return value;
}
template <class T>
void store(T* to, T value) {
    bare::see(to, sizeof value);
    memcpy(to, &value, sizeof value);
}
template <class T>
T load_if(const T* from, bool here) {
    T value = {};
    return here ? load(from) : value;
}
template <class T>
void store_if(T* to, T value, bool here) {
    if (here) store(to, value);
}
template <class T>
T load_shared(const T* from) {
    return load(from);
}
template <class T>
void store_shared(T* to, T value) {
    store(to, value);
}
inline void copy16_async(void* shared, const void* global, int valid) {
    bare::see(shared, 16);
    bare::see(global, 16);
    memset(shared, 0, 16);
    memcpy(shared, global, valid);
}
inline void commit_async() {}
template <int GROUPS>
void wait_async() {}
inline unsigned int load_acquire(const unsigned int* flag) {
    bare::pass_turn();
    return *flag;
}
inline void wait_briefly() {}
inline void store_release(unsigned int* flag, unsigned int value) { *flag = value; }
