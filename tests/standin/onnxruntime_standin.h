/* Controls of the stand-in for an ONNX Runtime with CUDA (onnxruntime_standin.c), for tests that
 * load it. Found by dlsym. */
#ifndef TUTTI_TESTS_STANDIN_ONNXRUNTIME_STANDIN_H
#define TUTTI_TESTS_STANDIN_ONNXRUNTIME_STANDIN_H

#include <stdbool.h>
#include <stdint.h>

/* What the CUDA provider of the newest session was given. */
struct onnxruntime_standin_provider {
    int device_id;
    int64_t gpu_mem_limit;
    void *user_compute_stream;
};

struct onnxruntime_standin {
    /* The next call of the function of OrtApi fails with this message, after `skip` that do not. */
    void (*fail_call)(const char *function, int skip, const char *message);
    /* The fault that was armed has happened. A fault that has not is disarmed. */
    int (*happened)(void);
    /* The next run fails at its turn on the stream, as a kernel that is at fault. */
    void (*fail_kernel)(void);
    /* Runs of the provider so far, and how many sessions and bindings there are. */
    int (*runs)(void);
    int (*open_things)(void);
    /* Weights on the GPU that sessions were offered, and that are still there: how often, and how
     * many different ones. */
    int (*offers)(int *out_places);
    int (*made)(void); /* sessions so far, also of the processor's */
    /* From now on, or no more, some nodes have no kernels on the GPU. Returns how many sessions
     * were refused since the last call, because they must not leave nodes to the processor. */
    int (*leave_nodes)(bool leaves);
    struct onnxruntime_standin_provider (*provider)(void);
};

#endif
