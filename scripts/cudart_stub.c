/* What perf_analyzer names of CUDA's runtime (scripts/setup.sh --clients): there is no device. */
enum { NO_DEVICE = 100 };

int cudaFree(void) { return NO_DEVICE; }
int cudaIpcGetMemHandle(void) { return NO_DEVICE; }
int cudaMalloc(void) { return NO_DEVICE; }
int cudaMemcpy(void) { return NO_DEVICE; }
int cudaSetDevice(void) { return NO_DEVICE; }

const char *cudaGetErrorName(int code) {
    (void)code;
    return "cudaErrorNoDevice";
}

const char *cudaGetErrorString(int code) {
    (void)code;
    return "this CUDA runtime is a stub without devices";
}
