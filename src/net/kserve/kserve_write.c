/* The answering half of kserve.h. */
#include "net/kserve/kserve.h"

#include "net/json/json_tensor.h"

#include <string.h>

enum { ANSWER_BYTES = 250 }; /* holds nearly every answer whose outputs are binary */

void tt_kserve_answer_init(struct tt_kserve_answer *self) {
    tt_text_init(&self->json);
    self->has_binary = false;
    self->binary_bytes = 0;
    self->part_count = 0;
}

void tt_kserve_answer_fini(struct tt_kserve_answer *self) { tt_text_fini(&self->json); }

static void write_member(struct tt_text *json, const char *name, const char *value) {
    tt_text_puts(json, name);
    tt_json_write_string(json, value, strlen(value));
}

static enum tt_err write_output(struct tt_kserve_answer *self, const struct tt_tensor_spec *spec,
                                const struct tt_tensor_view *view, bool is_binary,
                                struct tt_error *why) {
    struct tt_text *json = &self->json;
    char shape[8 * 21 + 3];
    write_member(json, "{\"name\":", spec->name);
    tt_text_puts(json, ",\"datatype\":\"");
    tt_text_puts(json, tt_dtype_name(spec->dtype));
    tt_text_puts(json, "\",\"shape\":");
    tt_text_puts(json, tt_shape_print(&view->shape, shape, sizeof(shape)));
    if (is_binary) {
        tt_text_puts(json, ",\"parameters\":{\"binary_data_size\":");
        tt_text_put_integer(json, (int64_t)view->size_bytes);
        tt_text_append(json, "}}", 2);
        self->parts[self->part_count].bytes = view->bytes;
        self->parts[self->part_count++].size_bytes = view->size_bytes;
        self->binary_bytes += view->size_bytes;
        return TT_OK;
    }
    tt_text_puts(json, ",\"data\":");
    enum tt_err err = tt_json_tensor_write(spec->dtype, tt_shape_count(&view->shape, 0),
                                           view->bytes, view->size_bytes, json, why);
    tt_text_puts(json, "}");
    return err ? tt_fail_in(err, why, "output '%s'", spec->name) : TT_OK;
}

enum tt_err tt_kserve_write(struct tt_kserve_answer *self, const struct tt_kserve_request *request,
                            const struct tt_served_model *model, const struct tt_inference *infer,
                            struct tt_error *why) {
    const struct tt_signature *signature = tt_served_model_signature(model);
    struct tt_text *json = &self->json;
    tt_text_reserve(json, ANSWER_BYTES);
    if (request->id.length) {
        tt_text_puts(json, "{\"id\":");
        tt_text_append(json, request->id.bytes, request->id.length);
        write_member(json, ",\"model_name\":", tt_served_model_name(model));
    } else {
        write_member(json, "{\"model_name\":", tt_served_model_name(model));
    }
    write_member(json, ",\"model_version\":", tt_served_model_version(model));
    tt_text_puts(json, ",\"outputs\":[");
    bool all = request->output_count == 0;
    int32_t count = all ? signature->output_count : request->output_count;
    for (int32_t i = 0; i < count; i++) {
        int32_t output = all ? i : request->outputs[i].output;
        bool is_binary = all ? request->binary_output : request->outputs[i].is_binary;
        struct tt_tensor_view view;
        tt_inference_output(infer, output, &view);
        if (i)
            tt_text_puts(json, ",");
        enum tt_err err = write_output(self, &signature->outputs[output], &view, is_binary, why);
        if (err)
            return err;
    }
    tt_text_puts(json, "]}");
    self->has_binary = self->binary_bytes > 0;
    return json->failed ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the answer") : TT_OK;
}
