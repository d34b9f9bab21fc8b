/* Choosing an instruction set at run time. Part of ops.c. */
#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__x86_64__)
/* Whether tile registers exist and may be used: Linux gives them to a process that asks, unless something above it, such as
 * a virtual machine, has not enabled them. */
static bool amx_is_usable(void) {
#if defined(__linux__)
    unsigned eax, ebx, ecx, edx, low, high;
    enum { BF16 = 1 << 22, TILE = 1 << 24, OSXSAVE = 1 << 27, TILE_STATES = 3 << 17 };
    enum { REQUEST_STATE = 0x1023, TILE_DATA = 18 };
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & OSXSAVE)) return false;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || (edx & (BF16 | TILE)) != (BF16 | TILE)) return false;
    if (!__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) || !(eax & 1 << 5)) return false;  /* AVX512_BF16 */
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & TILE_STATES) == TILE_STATES && syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
#else
    return false;
#endif
}
#endif

const KernelTable *find_kernels(const char *isa) {
    const KernelTable *available[4];
    int count = 0;
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vnni");
    if (avx512 && amx_is_usable()) available[count++] = &amx_kernels;
    if (avx512) available[count++] = &avx512_kernels;
    if (avx2) available[count++] = &avx2_kernels;  /* every processor with AVX2 has F16C */
#endif
    available[count++] = &portable_kernels;
    for (int i = 0; i < count; i++)
        if (isa == NULL || strcmp(isa, available[i]->isa) == 0) return available[i];
    return NULL;
}
