#include "net/kserve/kserve_share.h"

#include "net/kserve/kserve_parameters.h"

#include <string.h>

enum tt_kserve_share_key tt_kserve_share_key(const char *key) {
    static const char *const keys[] = {[TT_KSERVE_SHARE_REGION] = "shared_memory_region",
                                       [TT_KSERVE_SHARE_OFFSET] = "shared_memory_offset",
                                       [TT_KSERVE_SHARE_SIZE] = "shared_memory_byte_size"};
    for (int i = TT_KSERVE_SHARE_REGION; i <= TT_KSERVE_SHARE_SIZE; i++)
        if (strcmp(key, keys[i]) == 0)
            return (enum tt_kserve_share_key)i;
    return TT_KSERVE_SHARE_NONE;
}

static enum tt_err find(struct tt_kserve_request *request,
                        const struct tt_kserve_share_draft *draft,
                        struct tt_kserve_share **out_share, struct tt_error *why) {
    if (!request->memory)
        return tt_fail_in(tt_kserve_refuse_shared_memory(why), why, "\"shared_memory_region\"");
    if (draft->size <= 0)
        return tt_fail(TT_ERR_INVALID, why,
                       "\"shared_memory_byte_size\" must be given, and greater than 0");
    struct tt_kserve_share *share =
        (struct tt_kserve_share *)(void *)tt_kserve_request_keep(request, sizeof(*share));
    if (!share)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for the request");
    *share =
        (struct tt_kserve_share){.offset = (uint64_t)draft->offset, .size = (uint64_t)draft->size};
    enum tt_err err = tt_shared_memory_find(request->memory, draft->region, draft->region_bytes,
                                            share->offset, share->size, &share->region, why);
    if (err)
        return err;
    share->next = request->shares;
    request->shares = share;
    *out_share = share;
    return TT_OK;
}

static enum tt_err decode(const struct tt_kserve_input *input, void *to, size_t size_bytes,
                          struct tt_error *why) {
    const struct tt_kserve_share *share = input->data;
    enum tt_err err = tt_shared_region_read(share->region, share->offset, to, size_bytes, why);
    if (!err && input->dtype == TT_DTYPE_BYTES)
        err = tt_bytes_tensor_check(to, size_bytes, tt_shape_count(&input->shape, 0), why);
    return err ? tt_fail_in(err, why, "input '%.*s'", (int)input->name_bytes, input->name) : TT_OK;
}

bool tt_kserve_share_is_source(const struct tt_kserve_input *input) {
    return input->decode == decode;
}

enum tt_err tt_kserve_share_input(struct tt_kserve_request *request, struct tt_kserve_input *input,
                                  const struct tt_kserve_share_draft *draft, struct tt_error *why) {
    struct tt_kserve_share *share;
    size_t needed = 0, width = tt_dtype_bytes(input->dtype);
    int64_t count = tt_shape_count(&input->shape, 0);
    enum tt_err err = find(request, draft, &share, why);
    if (!err && (count < 0 || __builtin_mul_overflow((size_t)count, width, &needed) ||
                 (width && needed != share->size)))
        err = tt_fail(TT_ERR_INVALID, why, "%llu bytes of shared memory are not its shape's %zu",
                      (unsigned long long)draft->size, needed);
    if (err)
        return tt_fail_in(err, why, "input '%.*s'", (int)input->name_bytes, input->name);
    input->data = share;
    input->data_bytes = input->size_bytes = share->size;
    input->decode = decode;
    return TT_OK;
}

enum tt_err tt_kserve_share_output(struct tt_kserve_request *request,
                                   struct tt_kserve_output *output,
                                   const struct tt_kserve_share_draft *draft,
                                   struct tt_error *why) {
    enum tt_err err = find(request, draft, &output->share, why);
    return err ? tt_fail_in(err, why, "output '%.*s'", (int)output->name_bytes, output->name)
               : TT_OK;
}

uint64_t tt_kserve_shared_output_bytes(const struct tt_kserve_answer *answer) {
    uint64_t sum = 0;
    for (int32_t i = 0; i < answer->output_count; i++)
        sum += answer->outputs[i].share ? answer->outputs[i].view.size_bytes : 0;
    return sum;
}

enum tt_err tt_kserve_share_write(const struct tt_kserve_answer *answer, struct tt_error *why) {
    for (int32_t i = 0; i < answer->output_count; i++) {
        const struct tt_kserve_share *share = answer->outputs[i].share;
        const struct tt_tensor_view *view = &answer->outputs[i].view;
        const char *name = answer->outputs[i].spec->name;
        if (!share)
            continue;
        if (view->size_bytes > share->size)
            return tt_fail(TT_ERR_INVALID, why,
                           "shared memory size specified with the request for output '%s' (%llu "
                           "bytes) should be at least %zu bytes to hold the results",
                           name, (unsigned long long)share->size, view->size_bytes);
        enum tt_err err = tt_shared_region_write(share->region, share->offset, view->bytes,
                                                 view->size_bytes, why);
        if (err)
            return tt_fail_in(err, why, "output '%s'", name);
    }
    return TT_OK;
}
