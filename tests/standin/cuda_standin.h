/* Controls of the stand-in for NVIDIA's driver (cuda_standin.c), for tests that load it. Found by
 * dlsym. */
#ifndef TUTTI_TESTS_STANDIN_CUDA_STANDIN_H
#define TUTTI_TESTS_STANDIN_CUDA_STANDIN_H

#include <stddef.h>

struct cuda_standin {
    /* No fault armed, no sticky error, one GPU, no memory in use: that is asserted. */
    void (*reset)(int gpu_count, size_t memory_bytes);
    /* The next call of the function returns `result`, after `skip` calls that do not. */
    void (*fail_call)(const char *function, int skip, int result);
    /* The next copy or fill that runs on a stream leaves the context unusable with `result`. */
    void (*fail_operation)(int result);
    /* The context is unusable with `result`: a kernel of the caller's was at fault. */
    void (*break_context)(int result);
    /* The GPU is gone: from now on all calls return `result`, resets too. 0: it is back. */
    void (*vanish)(int result);
    /* Every fault that was armed has happened. */
    int (*all_happened)(void);
    /* What the end of the process does: frees all that the context still has. Returns how many
     * bytes of device memory there were. Nothing hangs any more. */
    size_t (*end_process)(void);
};

#endif
