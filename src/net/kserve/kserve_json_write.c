/* Writing of kserve_json.h. */
#include "net/kserve/kserve_json.h"

#include "net/json/json_tensor.h"
#include "net/kserve/kserve_share.h"

#include <string.h>

enum { ANSWER_BYTES = 250 }; /* holds nearly every answer whose outputs are binary */

static void write_member(struct tt_text *json, const char *name, const char *value) {
    tt_text_puts(json, name);
    tt_json_write_string(json, value, strlen(value));
}

/* Where the output is, as the request said. */
static void write_share(const struct tt_kserve_share *share, size_t size_bytes,
                        struct tt_text *json) {
    write_member(
        json, ",\"parameters\":{\"shared_memory_region\":", tt_shared_region_name(share->region));
    tt_text_puts(json, ",\"shared_memory_byte_size\":");
    tt_text_put_integer(json, (int64_t)size_bytes);
    if (share->offset) {
        tt_text_puts(json, ",\"shared_memory_offset\":");
        tt_text_put_integer(json, (int64_t)share->offset);
    }
    tt_text_append(json, "}}", 2);
}

static enum tt_err write_output(const struct tt_tensor_spec *spec,
                                const struct tt_tensor_view *view,
                                const struct tt_kserve_share *share, bool is_binary,
                                struct tt_text *json, struct tt_kserve_parts *parts,
                                struct tt_error *why) {
    char shape[8 * 21 + 3];
    write_member(json, "{\"name\":", spec->name);
    tt_text_puts(json, ",\"datatype\":\"");
    tt_text_puts(json, tt_dtype_name(spec->dtype));
    tt_text_puts(json, "\",\"shape\":");
    tt_text_puts(json, tt_shape_print(&view->shape, shape, sizeof(shape)));
    if (share) {
        write_share(share, view->size_bytes, json);
        return TT_OK;
    }
    if (is_binary) {
        tt_text_puts(json, ",\"parameters\":{\"binary_data_size\":");
        tt_text_put_integer(json, (int64_t)view->size_bytes);
        tt_text_append(json, "}}", 2);
        parts->parts[parts->count].bytes = view->bytes;
        parts->parts[parts->count++].size_bytes = view->size_bytes;
        parts->size_bytes += view->size_bytes;
        return TT_OK;
    }
    tt_text_puts(json, ",\"data\":");
    enum tt_err err = tt_json_tensor_write(spec->dtype, tt_shape_count(&view->shape, 0),
                                           view->bytes, view->size_bytes, json, why);
    tt_text_puts(json, "}");
    return err ? tt_fail_in(err, why, "output '%s'", spec->name) : TT_OK;
}

enum tt_err tt_kserve_json_write(const struct tt_kserve_answer *answer, struct tt_text *out_json,
                                 struct tt_kserve_parts *out_parts, struct tt_error *why) {
    struct tt_text *json = out_json;
    out_parts->count = 0;
    out_parts->size_bytes = 0;
    tt_text_reserve(json, ANSWER_BYTES);
    if (answer->id->length) {
        tt_text_puts(json, "{\"id\":");
        tt_text_append(json, answer->id->bytes, answer->id->length);
        write_member(json, ",\"model_name\":", answer->model_name);
    } else {
        write_member(json, "{\"model_name\":", answer->model_name);
    }
    write_member(json, ",\"model_version\":", answer->model_version);
    tt_text_puts(json, ",\"outputs\":[");
    for (int32_t i = 0; i < answer->output_count; i++) {
        if (i)
            tt_text_puts(json, ",");
        enum tt_err err = write_output(answer->outputs[i].spec, &answer->outputs[i].view,
                                       answer->outputs[i].share, answer->outputs[i].is_binary, json,
                                       out_parts, why);
        if (err)
            return err;
    }
    tt_text_puts(json, "]}");
    tt_assert(out_parts->count <= answer->output_count);
    return json->failed ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the answer") : TT_OK;
}
