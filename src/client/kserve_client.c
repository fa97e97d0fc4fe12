#include "client/kserve_client.h"

#include "client/json_tree.h"
#include "net/json/json_tensor.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum {
    STRING_LETTERS = 8,
    LENGTH_BYTES = 4,
    OPENING_BYTES = 160, /* the maximum: two numbers and the names */
};

/* --- the model --- */

static enum tt_err read_input(const json_t *json, struct tt_tensor_spec *spec,
                              struct tt_error *why) {
    const char *name = json_string_value(json_object_get(json, "name"));
    const char *dtype = json_string_value(json_object_get(json, "datatype"));
    const json_t *shape = json_object_get(json, "shape");
    if (!name || strlen(name) >= sizeof(spec->name) || !dtype || !json_is_array(shape) ||
        json_array_size(shape) > TT_MAX_RANK)
        return tt_fail(TT_ERR_INVALID, why,
                       "its metadata has an input without name, datatype or shape (of at most %d "
                       "dimensions)",
                       TT_MAX_RANK);
    strcpy(spec->name, name);
    spec->dtype = tt_dtype_parse(dtype, strlen(dtype));
    if (spec->dtype == TT_DTYPE_NONE)
        return tt_fail(TT_ERR_INVALID, why, "input '%s' has the unknown datatype '%s'", name,
                       dtype);
    spec->shape.rank = (int32_t)json_array_size(shape);
    for (int32_t d = 0; d < spec->shape.rank; d++) {
        const json_t *dim = json_array_get(shape, (size_t)d);
        if (!json_is_integer(dim) || json_integer_value(dim) < -1)
            return tt_fail(TT_ERR_INVALID, why, "input '%s' has a malformed shape", name);
        spec->shape.dims[d] = json_integer_value(dim);
    }
    return TT_OK;
}

enum tt_err tt_kserve_client_model_read(const char *json, size_t size_bytes,
                                        struct tt_kserve_client_model *out_model,
                                        struct tt_error *why) {
    struct tt_kserve_client_model model = {0};
    json_error_t error;
    json_t *root = tt_json_tree_load(json, size_bytes, 0, &error);
    const char *name = json_string_value(json_object_get(root, "name"));
    const json_t *inputs = json_object_get(root, "inputs");
    enum tt_err err = TT_OK;
    if (!name || strlen(name) >= sizeof(model.name) || !json_is_array(inputs) ||
        json_array_size(inputs) < 1 || json_array_size(inputs) > TT_MAX_TENSORS)
        err = tt_fail(TT_ERR_INVALID, why,
                      "the server's answer is not a model's metadata with 1 .. %d inputs",
                      TT_MAX_TENSORS);
    if (!err)
        strcpy(model.name, name);
    for (size_t i = 0; !err && i < json_array_size(inputs); i++)
        err = read_input(json_array_get(inputs, i), &model.inputs[model.input_count++], why);
    json_decref(root);
    if (!err)
        *out_model = model;
    return err;
}

enum tt_err tt_kserve_client_shape(struct tt_kserve_client_model *self, const char *input,
                                   const char *dims, struct tt_error *why) {
    struct tt_tensor_spec *spec = NULL;
    for (int32_t i = 0; i < self->input_count && !spec; i++)
        if (strcmp(self->inputs[i].name, input) == 0)
            spec = &self->inputs[i];
    if (!spec)
        return tt_fail(TT_ERR_NOT_FOUND, why, "model '%s' has no input '%s'; its first is '%s'",
                       self->name, input, self->inputs[0].name);
    struct tt_shape wanted = spec->shape;
    int32_t d = spec->shape.rank && spec->shape.dims[0] == -1 ? 1 : 0;
    const char *at = dims;
    bool good = true;
    while (good && *at) {
        char *end;
        long long dim = strtoll(at, &end, 10);
        good = end != at && dim >= 0 && dim <= INT32_MAX && d < wanted.rank &&
               (spec->shape.dims[d] == -1 || spec->shape.dims[d] == dim) &&
               (*end == '\0' || (*end == ',' && end[1]));
        if (good)
            wanted.dims[d++] = dim;
        at = *end ? end + 1 : end;
    }
    char text[TT_MAX_RANK * 21 + 2];
    if (!good || d != wanted.rank)
        return tt_fail(TT_ERR_INVALID, why,
                       "'%s' is not a shape for input '%s' of model '%s', which is %s (a first "
                       "-1 is "
                       "the rows and left out)",
                       dims, input, self->name, tt_shape_print(&spec->shape, text, sizeof(text)));
    spec->shape = wanted;
    return TT_OK;
}

const struct tt_tensor_spec *
tt_kserve_client_open_input(const struct tt_kserve_client_model *self) {
    for (int32_t i = 0; i < self->input_count; i++)
        for (int32_t d = 1; d < self->inputs[i].shape.rank; d++)
            if (self->inputs[i].shape.dims[d] == -1)
                return &self->inputs[i];
    return NULL;
}

bool tt_kserve_client_has_rows(const struct tt_kserve_client_model *self) {
    for (int32_t i = 0; i < self->input_count; i++)
        if (self->inputs[i].shape.rank && self->inputs[i].shape.dims[0] == -1)
            return true;
    return false;
}

/* --- values --- */

static double unit(struct tt_prng *prng) {
    return (double)(tt_prng_next(prng) >> 40) / (double)(1 << 24);
}

/* One element, not BYTES, at `to`. */
static void draw_element(enum tt_dtype dtype, struct tt_prng *prng, void *to) {
    uint64_t small = tt_prng_below(prng, dtype == TT_DTYPE_BOOL ? 2 : 8);
    if (dtype == TT_DTYPE_FP64) {
        memcpy(to, &(double){unit(prng)}, 8);
    } else if (dtype == TT_DTYPE_FP32) {
        memcpy(to, &(float){(float)unit(prng)}, 4);
    } else if (dtype == TT_DTYPE_BF16) { /* the upper half of an FP32 */
        uint32_t bits;
        memcpy(&bits, &(float){(float)unit(prng)}, 4);
        memcpy(to, &(uint16_t){(uint16_t)(bits >> 16)}, 2);
    } else if (dtype == TT_DTYPE_FP16) { /* 1 .. 2 minus 1: each of the ten mantissa bits counts */
        static const uint16_t eighths[8] = {0x0000, 0x3000, 0x3400, 0x3600,
                                            0x3800, 0x3900, 0x3a00, 0x3b00};
        memcpy(to, &eighths[small], 2);
    } else { /* integers and BOOL, little endian as in the protocol */
        memset(to, 0, tt_dtype_bytes(dtype));
        *(unsigned char *)to = (unsigned char)small;
    }
}

static void draw_tensor(enum tt_dtype dtype, int64_t count, struct tt_prng *prng,
                        struct tt_text *out) {
    size_t each = dtype == TT_DTYPE_BYTES ? LENGTH_BYTES + STRING_LETTERS : tt_dtype_bytes(dtype);
    size_t all;
    if (__builtin_mul_overflow(each, (size_t)count, &all)) {
        out->failed = true;
        return;
    }
    char *at = tt_text_reserve(out, all);
    if (!at)
        return;
    for (int64_t i = 0; i < count; i++, at += each) {
        if (dtype != TT_DTYPE_BYTES) {
            draw_element(dtype, prng, at);
            continue;
        }
        memcpy(at, &(uint32_t){STRING_LETTERS}, LENGTH_BYTES);
        for (int k = 0; k < STRING_LETTERS; k++)
            at[LENGTH_BYTES + k] = (char)('a' + tt_prng_below(prng, 26));
    }
    out->length += all;
}

/* --- bodies --- */

void tt_kserve_client_body_fini(struct tt_kserve_client_body *self) {
    tt_text_fini(&self->json);
    tt_text_fini(&self->binary);
}

static void begin_input(struct tt_text *json, const struct tt_tensor_spec *spec,
                        const struct tt_shape *shape, bool first) {
    char text[TT_MAX_RANK * 21 + 2];
    tt_text_puts(json, first ? "{\"name\":" : ",{\"name\":");
    tt_json_write_string(json, spec->name, strlen(spec->name));
    tt_text_printf(json, ",\"datatype\":\"%s\",\"shape\":%s,", tt_dtype_name(spec->dtype),
                   tt_shape_print(shape, text, sizeof(text)));
}

static void put_binary(struct tt_kserve_client_body *body, size_t size_bytes) {
    body->has_binary = true;
    tt_text_printf(&body->json, "\"parameters\":{\"binary_data_size\":%zu}}", size_bytes);
}

static enum tt_err finish(struct tt_kserve_client_body *body, enum tt_err err,
                          struct tt_kserve_client_body *out_body, struct tt_error *why) {
    if (!err && (body->json.failed || body->binary.failed))
        err = tt_fail(TT_ERR_NO_MEMORY, why, "no memory for the inputs of a request");
    if (err)
        tt_kserve_client_body_fini(body);
    else
        *out_body = *body;
    return err;
}

enum tt_err tt_kserve_client_body_draw(const struct tt_kserve_client_model *model, int32_t rows,
                                       int64_t length, bool binary, struct tt_prng *prng,
                                       struct tt_kserve_client_body *out_body,
                                       struct tt_error *why) {
    struct tt_kserve_client_body body = {.has_binary = false};
    tt_text_init(&body.json);
    tt_text_init(&body.binary);
    enum tt_err err = TT_OK;
    tt_text_puts(&body.json, "\"inputs\":[");
    for (int32_t i = 0; !err && i < model->input_count; i++) {
        const struct tt_tensor_spec *spec = &model->inputs[i];
        struct tt_shape shape = spec->shape;
        for (int32_t d = 0; d < shape.rank; d++)
            if (shape.dims[d] == -1)
                shape.dims[d] = d == 0 ? rows : length;
        int64_t count = tt_shape_count(&shape, 0);
        if (count < 0) {
            err = tt_fail(TT_ERR_INVALID, why, "input '%s' of model '%s' would be too large",
                          spec->name, model->name);
            break;
        }
        begin_input(&body.json, spec, &shape, i == 0);
        struct tt_text values;
        tt_text_init(&values);
        draw_tensor(spec->dtype, count, prng, &values);
        if (binary) {
            put_binary(&body, values.length);
            tt_text_append(&body.binary, values.bytes, values.length);
        } else {
            tt_text_puts(&body.json, "\"data\":");
            err = tt_json_tensor_write(spec->dtype, count, values.bytes ? values.bytes : "",
                                       values.length, &body.json, why);
            tt_text_puts(&body.json, "}");
        }
        body.json.failed |= values.failed;
        tt_text_fini(&values);
    }
    tt_text_puts(&body.json, "]}");
    return finish(&body, err, out_body, why);
}

/* --- bodies from files --- */

/* Converts a tensor in JSON to bytes. */
static enum tt_err pack(const struct tt_tensor_spec *spec, const char *data, int64_t count,
                        struct tt_text *out, struct tt_error *why) {
    struct tt_json json;
    size_t size_bytes = tt_dtype_bytes(spec->dtype) * (size_t)count;
    enum tt_err err = TT_OK;
    if (spec->dtype == TT_DTYPE_BYTES) {
        tt_json_init(&json, data, strlen(data), why);
        err = tt_json_tensor_measure(&json, count, &size_bytes);
    }
    tt_json_init(&json, data, strlen(data), why);
    char *to = err ? NULL : tt_text_reserve(out, size_bytes);
    if (!err && !to)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for the inputs of a request");
    if (!err)
        err = tt_json_tensor_read(&json, spec->dtype, count, to, size_bytes);
    if (!err)
        out->length += size_bytes;
    return err;
}

static enum tt_err read_tensor(const json_t *json, bool first, bool binary,
                               struct tt_kserve_client_body *body, struct tt_error *why) {
    struct tt_tensor_spec spec;
    enum tt_err err = read_input(json, &spec, why);
    const json_t *data = json_object_get(json, "data");
    int64_t count = err ? -1 : tt_shape_count(&spec.shape, 0);
    if (err || count < 0 || !json_is_array(data))
        return err ? err
                   : tt_fail(TT_ERR_INVALID, why,
                             "input '%s' needs a shape without -1 and its \"data\" as an array",
                             spec.name);
    char *text = json_dumps(data, JSON_COMPACT);
    if (!text)
        return tt_fail(TT_ERR_NO_MEMORY, why, "no memory for the inputs of a request");
    begin_input(&body->json, &spec, &spec.shape, first);
    size_t before = body->binary.length;
    if (binary) {
        err = pack(&spec, text, count, &body->binary, why);
        put_binary(body, body->binary.length - before);
    } else {
        tt_text_printf(&body->json, "\"data\":%s}", text);
    }
    free(text);
    return err ? tt_fail_in(err, why, "input '%s'", spec.name) : TT_OK;
}

enum tt_err tt_kserve_client_body_read(const char *json, size_t size_bytes, bool binary,
                                       struct tt_kserve_client_body *out_body,
                                       struct tt_error *why) {
    struct tt_kserve_client_body body = {.has_binary = false};
    tt_text_init(&body.json);
    tt_text_init(&body.binary);
    json_error_t error;
    json_t *root = json_loadb(json, size_bytes, 0, &error);
    if (!root)
        return tt_fail(TT_ERR_INVALID, why, "not JSON: %s (column %d)", error.text, error.column);
    const json_t *inputs = json_object_get(root, "inputs");
    const json_t *outputs = json_object_get(root, "outputs");
    enum tt_err err = TT_OK;
    if (!json_is_array(inputs) || json_array_size(inputs) < 1)
        err = tt_fail(TT_ERR_INVALID, why,
                      "no infer request: {\"inputs\": [{\"name\", \"datatype\", \"shape\", "
                      "\"data\"}, ...]} is one");
    tt_text_puts(&body.json, "\"inputs\":[");
    for (size_t i = 0; !err && i < json_array_size(inputs); i++)
        err = read_tensor(json_array_get(inputs, i), i == 0, binary, &body, why);
    tt_text_puts(&body.json, "]");
    char *text = outputs ? json_dumps(outputs, JSON_COMPACT) : NULL;
    body.json.failed |= outputs && !text;
    if (text)
        tt_text_printf(&body.json, ",\"outputs\":%s", text);
    tt_text_puts(&body.json, "}");
    free(text);
    json_decref(root);
    return finish(&body, err, out_body, why);
}

/* --- heads --- */

void tt_kserve_client_path(const char *model, struct tt_text *out_text) {
    tt_text_puts(out_text, "/v2/models/");
    for (; *model; model++) { /* unreserved characters (RFC 3986) are written as they are */
        bool plain = (*model >= 'a' && *model <= 'z') || (*model >= 'A' && *model <= 'Z') ||
                     (*model >= '0' && *model <= '9') || strchr("-._~", *model);
        if (plain)
            tt_text_append(out_text, model, 1);
        else
            tt_text_printf(out_text, "%%%02X", (unsigned char)*model);
    }
}

/* Writes `{` and the parameters, if any. */
static void put_opening(const struct tt_kserve_client_request *request, struct tt_text *out) {
    const char *before = "{\"parameters\":{";
    tt_text_clear(out);
    if (request->timeout_us > 0) {
        tt_text_puts(out, before);
        tt_text_puts(out, "\"timeout\":");
        tt_text_put_integer(out, request->timeout_us);
        before = ",";
    }
    if (request->priority) {
        tt_text_puts(out, before);
        tt_text_puts(out, "\"priority\":");
        tt_text_put_integer(out, request->priority);
        before = ",";
    }
    if (request->binary) {
        tt_text_puts(out, before);
        tt_text_puts(out, "\"binary_data_output\":true");
        before = ",";
    }
    tt_text_puts(out, before[0] == ',' ? "}," : "{");
}

void tt_kserve_client_head(const struct tt_kserve_client_request *request,
                           struct tt_text *out_text) {
    char bytes[OPENING_BYTES];
    struct tt_text opening = {.bytes = bytes, .capacity = sizeof(bytes)}; /* never grows */
    put_opening(request, &opening);
    size_t json_bytes = opening.length + request->body->json.length;
    size_t binary_bytes = request->body->binary.length;
    tt_text_puts(out_text, "POST ");
    tt_kserve_client_path(request->model, out_text);
    tt_text_puts(out_text, "/infer HTTP/1.1\r\nHost: ");
    tt_text_puts(out_text, request->authority);
    tt_text_append(out_text, "\r\n", 2);
    if (request->headers)
        tt_text_puts(out_text, request->headers);
    tt_text_puts(out_text, "Content-Type: application/");
    tt_text_puts(out_text, request->body->has_binary ? "octet-stream\r\n" : "json\r\n");
    if (request->body->has_binary) {
        tt_text_puts(out_text, "Inference-Header-Content-Length: ");
        tt_text_put_integer(out_text, (int64_t)json_bytes);
        tt_text_append(out_text, "\r\n", 2);
    }
    tt_text_puts(out_text, "Content-Length: ");
    tt_text_put_integer(out_text, (int64_t)(json_bytes + binary_bytes));
    tt_text_append(out_text, "\r\n\r\n", 4);
    tt_text_append(out_text, opening.bytes, opening.length);
    tt_assert(opening.bytes == bytes);
}
