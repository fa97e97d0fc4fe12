#include "net/kserve/kserve_parameters.h"

#include <string.h>

enum tt_err tt_kserve_check_shared_memory(const char *key, struct tt_error *why) {
    static const char prefix[] = "shared_memory_";
    if (strncmp(key, prefix, sizeof(prefix) - 1) != 0)
        return TT_OK;
    return tt_fail_in(tt_kserve_refuse_shared_memory(why), why, "\"%s\"", key);
}

enum tt_err tt_kserve_refuse_shared_memory(struct tt_error *why) {
    return tt_fail(TT_ERR_UNSUPPORTED, why,
                   "shared memory is not supported by this server: start it with --shared-memory, "
                   "or send the tensor in the body");
}

enum tt_err tt_kserve_refuse_cuda_memory(struct tt_error *why) {
    return tt_fail(TT_ERR_UNSUPPORTED, why,
                   "CUDA shared memory is not supported; send the tensor in the body");
}

enum tt_err tt_kserve_refuse_repository(struct tt_error *why) {
    return tt_fail(TT_ERR_UNSUPPORTED, why, "'repository_name' specification is not supported");
}

enum tt_err tt_kserve_check_reserved(const char *key, struct tt_error *why) {
    static const char prefix[] = "triton_";
    if (strncmp(key, prefix, sizeof(prefix) - 1) != 0)
        return TT_OK;
    return tt_fail(TT_ERR_INVALID, why,
                   "\"%s\": parameter keys that start with \"triton_\" are reserved", key);
}

enum tt_err tt_kserve_refuse_sequence(struct tt_error *why) {
    return tt_fail(TT_ERR_UNSUPPORTED, why,
                   "\"sequence_id\": sequences are not supported; leave it out");
}

enum tt_err tt_kserve_refuse_classification(struct tt_error *why) {
    return tt_fail(TT_ERR_UNSUPPORTED, why,
                   "\"classification\" is not supported; ask for the output itself");
}

enum tt_err tt_kserve_refuse_long_name(struct tt_error *why) {
    return tt_fail(TT_ERR_NOT_FOUND, why, "no model has so long a name or version");
}
