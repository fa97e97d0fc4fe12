#include "net/kserve/kserve_generate.h"

#include "net/kserve/kserve_json_internal.h"

#include <string.h>

enum { MAX_VALUE_DEPTH = TT_MAX_RANK }; /* of arrays within a value */

/* Passes over one value and counts its elements. */
static enum tt_err count_elements(struct tt_json *json, int32_t depth, bool *out_is_array,
                                  int64_t *count) {
    *out_is_array = tt_json_peek(json) == '[';
    if (!*out_is_array) {
        (*count)++;
        return tt_json_skip(json);
    }
    if (depth == MAX_VALUE_DEPTH)
        return tt_fail(TT_ERR_INVALID, json->why, "arrays are nested deeper than %d",
                       MAX_VALUE_DEPTH);
    enum tt_err err = tt_json_open(json, '[');
    bool first = true, more = false, is_array;
    while (!err) {
        err = tt_json_next(json, ']', &first, &more);
        if (err || !more)
            break;
        err = count_elements(json, depth + 1, &is_array, count);
    }
    return err;
}

/* One request's shape: the open dimension, if there is one, takes what the values leave. */
static enum tt_err find_shape(const struct tt_tensor_spec *spec, bool batched, int64_t count,
                              struct tt_shape *out_shape, struct tt_error *why) {
    struct tt_shape shape = spec->shape;
    int32_t open = -1;
    if (batched)
        shape.dims[0] = 1;
    for (int32_t i = 0; i < shape.rank; i++) {
        if (shape.dims[i] >= 0)
            continue;
        if (open >= 0)
            return tt_fail(TT_ERR_INVALID, why,
                           "input '%s' has several open dimensions, so its values do not give a "
                           "shape; send it to /infer",
                           spec->name);
        open = i;
        shape.dims[i] = 1;
    }
    int64_t unit = tt_shape_count(&shape, 0);
    bool fits = open >= 0 ? unit > 0 && count % unit == 0 : count == unit;
    if (!fits)
        return tt_fail(TT_ERR_INVALID, why, "input '%s' has %lld values; %s %lld", spec->name,
                       (long long)count, open >= 0 ? "it takes a multiple of" : "it takes",
                       (long long)unit);
    if (open >= 0)
        shape.dims[open] = count / unit;
    *out_shape = shape;
    return TT_OK;
}

/* The value as text of an array, which is what decoders read. A single value gets its brackets in
 * memory of the request. */
static enum tt_err take_text(struct tt_kserve_reader *reader, struct tt_kserve_input *input,
                             const char *from, size_t text_bytes, bool is_array) {
    input->data = from;
    input->data_bytes = text_bytes;
    if (is_array)
        return TT_OK;
    char *array = tt_kserve_request_keep(reader->request, text_bytes + 2);
    if (!array)
        return tt_fail(TT_ERR_NO_MEMORY, reader->why, "no memory for an input");
    array[0] = '[';
    memcpy(array + 1, from, text_bytes);
    array[text_bytes + 1] = ']';
    input->data = array;
    input->data_bytes = text_bytes + 2;
    return TT_OK;
}

static enum tt_err read_input(struct tt_kserve_reader *reader, const struct tt_tensor_spec *spec,
                              bool batched) {
    struct tt_json *json = &reader->json;
    struct tt_kserve_request *request = reader->request;
    if (request->input_count == TT_MAX_TENSORS)
        return tt_fail(TT_ERR_INVALID, reader->why, "more than %d inputs", TT_MAX_TENSORS);
    struct tt_kserve_input *input = &request->inputs[request->input_count];
    bool is_array;
    int64_t count = 0;
    tt_json_peek(json);
    const char *from = json->at;
    enum tt_err err = count_elements(json, 0, &is_array, &count);
    if (!err)
        err = find_shape(spec, batched, count, &input->shape, reader->why);
    if (!err)
        err = take_text(reader, input, from, (size_t)(json->at - from), is_array);
    if (err)
        return tt_fail_in(err, reader->why, "\"%s\"", spec->name);
    input->name = spec->name;
    input->name_bytes = strlen(spec->name);
    input->datatype = tt_dtype_name(spec->dtype);
    input->datatype_bytes = strlen(input->datatype);
    input->dtype = spec->dtype;
    input->decode = tt_kserve_decode_array;
    input->decode_argument = MAX_VALUE_DEPTH;
    input->size_bytes = (size_t)count * tt_dtype_bytes(spec->dtype);
    if (spec->dtype == TT_DTYPE_BYTES) {
        struct tt_json strings;
        tt_json_init(&strings, input->data, input->data_bytes, reader->why);
        err = tt_json_tensor_measure(&strings, count, &input->size_bytes);
    }
    request->input_count++;
    return err ? tt_fail_in(err, reader->why, "input '%s'", spec->name) : TT_OK;
}

/* Reads the members of an object: of the request, or of its "parameters". */
static enum tt_err read_members(struct tt_kserve_reader *reader,
                                const struct tt_signature *signature, bool is_nested) {
    struct tt_json *json = &reader->json;
    enum tt_err err = tt_json_open(json, '{');
    bool first = true, more = false;
    while (!err) {
        char key[TT_MAX_NAME_BYTES];
        err = tt_json_next(json, '}', &first, &more);
        if (err || !more)
            break;
        err = tt_json_key(json, key, sizeof(key));
        const struct tt_tensor_spec *spec = NULL;
        for (int32_t i = 0; !err && *key && i < signature->input_count; i++)
            if (strcmp(signature->inputs[i].name, key) == 0)
                spec = &signature->inputs[i];
        bool taken = true;
        if (err)
            break;
        if (spec)
            err = read_input(reader, spec, signature->batched);
        else if (!is_nested && strcmp(key, "parameters") == 0)
            err = read_members(reader, signature, true);
        else if (!is_nested && strcmp(key, "id") == 0)
            err = reader->request->id.length
                      ? tt_fail(TT_ERR_INVALID, reader->why, "\"id\" is given twice")
                      : tt_kserve_read_id(reader);
        else
            err = tt_kserve_read_parameter(reader, key, &reader->request->options, &taken);
        if (!err && !taken)
            err = tt_json_skip(json);
    }
    return err && is_nested ? tt_fail_in(err, reader->why, "\"parameters\"") : err;
}

enum tt_err tt_kserve_generate_read(struct tt_kserve_request *out_request,
                                    const struct tt_signature *signature, const char *body,
                                    size_t body_bytes, int32_t max_depth, struct tt_error *why) {
    struct tt_kserve_reader reader = {.request = out_request, .why = why};
    tt_json_init(&reader.json, body, body_bytes, why);
    reader.json.max_depth = max_depth;
    enum tt_err err = read_members(&reader, signature, false);
    out_request->binary_output = false;
    out_request->is_flat = true;
    return err ? err : tt_json_end(&reader.json);
}

/* A flat array of one element, without its brackets. */
static void unwrap(struct tt_text *json, size_t from) {
    tt_assert(json->bytes[from] == '[');
    tt_assert(json->bytes[json->length - 1] == ']');
    memmove(json->bytes + from, json->bytes + from + 1, json->length - from - 2);
    json->length -= 2;
    json->bytes[json->length] = '\0';
}

enum tt_err tt_kserve_generate_write(const struct tt_kserve_answer *answer,
                                     struct tt_text *out_json, struct tt_error *why) {
    struct tt_text *json = out_json;
    tt_text_puts(json, "{");
    if (answer->id->length) {
        tt_text_puts(json, "\"id\":");
        tt_text_append(json, answer->id->bytes, answer->id->length);
        tt_text_puts(json, ",");
    }
    tt_text_puts(json, "\"model_name\":");
    tt_json_write_string(json, answer->model_name, strlen(answer->model_name));
    tt_text_puts(json, ",\"model_version\":");
    tt_json_write_string(json, answer->model_version, strlen(answer->model_version));
    for (int32_t i = 0; i < answer->output_count; i++) {
        const struct tt_tensor_spec *spec = answer->outputs[i].spec;
        const struct tt_tensor_view *view = &answer->outputs[i].view;
        int64_t count = tt_shape_count(&view->shape, 0);
        tt_text_puts(json, ",");
        tt_json_write_string(json, spec->name, strlen(spec->name));
        tt_text_puts(json, ":");
        size_t from = json->length;
        enum tt_err err =
            tt_json_tensor_write(spec->dtype, count, view->bytes, view->size_bytes, json, why);
        if (err)
            return tt_fail_in(err, why, "output '%s'", spec->name);
        if (count == 1 && !json->failed)
            unwrap(json, from);
    }
    tt_text_puts(json, "}");
    return json->failed ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for the answer") : TT_OK;
}
