#include "device/async_move.h"

#include <string.h>

static enum tt_err find(struct tt_async_arena *arena, int32_t stream, const char *name,
                        uint64_t address, size_t bytes, void **out_bytes, struct tt_error *why) {
    *out_bytes = tt_async_arena_bytes(arena, address, bytes);
    if (*out_bytes)
        return TT_OK;
    return tt_fail(TT_ERR_INVALID, why,
                   "%s on stream %d: %zu bytes at 0x%llx are not reserved device memory", name,
                   stream, bytes, (unsigned long long)address);
}

static enum tt_err launch(struct tt_async_device *device, int32_t stream,
                          const struct tt_async_kernel *kernel, struct tt_error *why) {
    enum tt_err err = tt_async_kernel_run(device, kernel);
    return err ? tt_fail(err, why, "kernel %s on stream %d failed: %s", kernel->name, stream,
                         tt_err_name(err))
               : TT_OK;
}

enum tt_err tt_async_move(struct tt_async_device *device, struct tt_async_arena *arena,
                          int32_t stream, const struct tt_async_op *op, struct tt_error *why) {
    void *to = NULL, *from = NULL;
    enum tt_err err = TT_OK;
    switch (op->kind) {
    case TT_ASYNC_COPY_IN:
        err = find(arena, stream, "copy in", op->to, op->bytes, &to, why);
        if (!err)
            memcpy(to, op->host_from, op->bytes);
        break;
    case TT_ASYNC_COPY_OUT:
        err = find(arena, stream, "copy out", op->from, op->bytes, &from, why);
        if (!err)
            memcpy(op->host_to, from, op->bytes);
        break;
    case TT_ASYNC_COPY_WITHIN:
        err = find(arena, stream, "copy within", op->to, op->bytes, &to, why);
        if (!err)
            err = find(arena, stream, "copy within", op->from, op->bytes, &from, why);
        if (!err)
            memcpy(to, from, op->bytes);
        break;
    case TT_ASYNC_FILL:
        err = find(arena, stream, "fill", op->to, op->bytes, &to, why);
        if (!err)
            memset(to, op->value, op->bytes);
        break;
    case TT_ASYNC_LAUNCH: err = launch(device, stream, &op->kernel, why); break;
    case TT_ASYNC_CALL: op->call(op->call_context); break;
    case TT_ASYNC_RECORD:
    case TT_ASYNC_WAIT: break;
    }
    return err;
}
