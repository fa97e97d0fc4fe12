/* Reading of kserve_json.h. */
#include "net/kserve/kserve_json_internal.h"

#include "net/kserve/kserve_parameters.h"
#include "net/kserve/kserve_share.h"

#include <stdio.h>
#include <string.h>

/* Finds a member that may occur once; `seen` has a bit for each name. */
static enum tt_err member(struct tt_kserve_reader *reader, const char *const names[], int count,
                          const char *key, size_t key_bytes, unsigned *seen, int *out_index) {
    for (int i = 0; i < count; i++) {
        if (!key_bytes || key[0] != names[i][0] || strncmp(key, names[i], key_bytes) != 0 ||
            names[i][key_bytes])
            continue;
        if (*seen & 1u << i)
            return tt_fail(TT_ERR_INVALID, reader->why, "JSON, byte %zu: \"%s\" is given twice",
                           (size_t)(reader->json.at - reader->json.start), names[i]);
        *seen |= 1u << i;
        *out_index = i;
        return TT_OK;
    }
    *out_index = -1;
    return TT_OK;
}

/* State of the walk over one object. */
struct members {
    bool first;
    unsigned seen;
};

/* Moves to the next member of the object and sets its index in `names`; -1: another name. False: no
 * member is left, or *out_err is set. */
static bool next_member(struct tt_kserve_reader *reader, const char *const names[], int count,
                        struct members *at, int *out_index, enum tt_err *out_err) {
    bool more = false;
    char escaped[32];
    const char *key;
    size_t key_bytes;
    enum tt_err err = tt_json_next(&reader->json, '}', &at->first, &more);
    if (!err && more)
        err = tt_json_name(&reader->json, escaped, sizeof(escaped), &key, &key_bytes);
    if (!err && more)
        err = member(reader, names, count, key, key_bytes, &at->seen, out_index);
    *out_err = err;
    return !err && more;
}

typedef enum tt_err parameter_fn(struct tt_kserve_reader *reader, const char *key, void *context,
                                 bool *out_taken);

/* Reads an object of parameters and skips those that `take` does not know. */
static enum tt_err read_parameters(struct tt_kserve_reader *reader, parameter_fn *take,
                                   void *context) {
    struct tt_json *json = &reader->json;
    enum tt_err err = tt_json_open(json, '{');
    bool first = true, more = false;
    while (!err) {
        err = tt_json_next(json, '}', &first, &more);
        if (err || !more)
            break;
        char key[64];
        err = tt_json_key(json, key, sizeof(key));
        bool taken = false;
        if (!err)
            err = take(reader, key, context, &taken);
        if (!err && !taken)
            err = tt_json_skip(json);
    }
    return err ? tt_fail_in(err, reader->why, "\"parameters\"") : TT_OK;
}

/* Reads a string, borrowed from the body; one with escapes is decoded into memory of
 * the request. */
static enum tt_err read_string(struct tt_kserve_reader *reader, const char *what,
                               const char **out_string, size_t *out_bytes) {
    struct tt_json *json = &reader->json;
    if (tt_json_string_plain(json, out_string, out_bytes))
        return TT_OK;
    const char *from = json->at;
    size_t length;
    enum tt_err err = tt_json_string(json, NULL, &length);
    if (err)
        return tt_fail_in(err, reader->why, "\"%s\"", what);
    char *decoded = tt_kserve_request_keep(reader->request, (size_t)(json->at - from));
    if (!decoded)
        return tt_fail(TT_ERR_NO_MEMORY, reader->why, "no memory for \"%s\"", what);
    json->at = from;
    err = tt_json_string(json, decoded, out_bytes);
    tt_assert(err == TT_OK);
    tt_assert(*out_bytes == length);
    *out_string = decoded;
    return TT_OK;
}

/* --- members of the request itself --- */

enum tt_err tt_kserve_read_parameter(struct tt_kserve_reader *reader, const char *key,
                                     void *options_context, bool *out_taken) {
    struct tt_inference_options *options = options_context;
    int64_t value = 0;
    enum tt_err err = TT_OK;
    *out_taken = true;
    if (strcmp(key, "timeout") == 0) {
        err = tt_json_integer(&reader->json, key, 0, INT64_MAX / 1000, &value);
        options->timeout_ns = value * 1000;
    } else if (strcmp(key, "priority") == 0) {
        err = tt_json_integer(&reader->json, key, 0, INT32_MAX, &value);
        options->priority = (int32_t)value;
    } else if (strcmp(key, "binary_data_output") == 0) {
        err = tt_json_bool(&reader->json, key, &reader->request->binary_output);
    } else if (strcmp(key, "sequence_id") == 0) {
        struct tt_json_number id;
        bool is_number = tt_json_peek(&reader->json) != '"';
        err = is_number ? tt_json_number(&reader->json, &id) : tt_json_skip(&reader->json);
        if (!err && !(is_number && id.mantissa == 0))
            err = tt_kserve_refuse_sequence(reader->why);
    } else {
        err = tt_kserve_check_reserved(key, reader->why);
        *out_taken = false;
    }
    return err;
}

enum tt_err tt_kserve_read_id(struct tt_kserve_reader *reader) {
    struct tt_json *json = &reader->json;
    tt_json_peek(json);
    const char *from = json->at;
    size_t length;
    enum tt_err err = tt_json_string(json, NULL, &length);
    if (err)
        return tt_fail_in(err, reader->why, "\"id\"");
    tt_text_append(&reader->request->id, from, (size_t)(json->at - from));
    reader->request->id_margin = 1;
    return reader->request->id.failed
               ? tt_fail(TT_ERR_NO_MEMORY, reader->why, "no memory for \"id\"")
               : TT_OK;
}

/* --- an input --- */

struct input_draft {
    struct tt_kserve_input *input;
    const char *array; /* the JSON array; NULL: none */
    size_t array_bytes;
    int64_t binary_bytes; /* -1: not binary */
    struct tt_kserve_share_draft share;
};

/* Reads the value of a parameter about shared memory. *out_taken: it was one. */
static enum tt_err read_share(struct tt_kserve_reader *reader, const char *key,
                              struct tt_kserve_share_draft *share, bool *out_taken) {
    enum tt_kserve_share_key which = tt_kserve_share_key(key);
    *out_taken = which != TT_KSERVE_SHARE_NONE;
    if (!*out_taken || !reader->request->memory) /* refused */
        return tt_kserve_check_shared_memory(key, reader->why);
    if (which == TT_KSERVE_SHARE_REGION)
        return read_string(reader, key, &share->region, &share->region_bytes);
    return tt_json_integer(&reader->json, key, 0, INT64_MAX,
                           which == TT_KSERVE_SHARE_OFFSET ? &share->offset : &share->size);
}

static enum tt_err input_parameter(struct tt_kserve_reader *reader, const char *key, void *context,
                                   bool *out_taken) {
    struct input_draft *draft = context;
    *out_taken = strcmp(key, "binary_data_size") == 0;
    if (*out_taken)
        return tt_json_integer(&reader->json, key, 0, INT64_MAX, &draft->binary_bytes);
    return read_share(reader, key, &draft->share, out_taken);
}

static enum tt_err read_shape(struct tt_kserve_reader *reader, struct tt_shape *out_shape) {
    struct tt_json *json = &reader->json;
    enum tt_err err = tt_json_open(json, '[');
    bool first = true, more = false;
    out_shape->rank = 0;
    while (!err) {
        err = tt_json_next(json, ']', &first, &more);
        if (err || !more)
            break;
        if (out_shape->rank == TT_MAX_RANK)
            return tt_fail(TT_ERR_INVALID, reader->why,
                           "\"shape\" has more than %d dimensions, the maximum", TT_MAX_RANK);
        err = tt_json_integer(json, "shape", 0, INT64_MAX, &out_shape->dims[out_shape->rank++]);
    }
    return err;
}

enum { NAME, SHAPE, DATATYPE, PARAMETERS, DATA, INPUT_MEMBERS };
static const char *const input_members[] = {"name", "shape", "datatype", "parameters", "data"};

static enum tt_err read_input_member(struct tt_kserve_reader *reader, int index,
                                     struct input_draft *draft) {
    struct tt_json *json = &reader->json;
    struct tt_kserve_input *input = draft->input;
    enum tt_err err;
    switch (index) {
    case NAME: return read_string(reader, "name", &input->name, &input->name_bytes);
    case SHAPE: return read_shape(reader, &input->shape);
    case DATATYPE: return read_string(reader, "datatype", &input->datatype, &input->datatype_bytes);
    case PARAMETERS: return read_parameters(reader, input_parameter, draft);
    case DATA:
        tt_json_peek(json);
        draft->array = json->at;
        err = tt_json_skip_array_unchecked(json);
        draft->array_bytes = (size_t)(json->at - draft->array);
        return err;
    default: return tt_json_skip(json);
    }
}

enum tt_err tt_kserve_decode_array(const struct tt_kserve_input *input, void *to, size_t size_bytes,
                                   struct tt_error *why) {
    struct tt_json json;
    tt_json_init(&json, input->data, input->data_bytes, why);
    json.max_depth = input->decode_argument;
    int64_t count = tt_shape_count(&input->shape, 0);
    enum tt_err err = tt_json_tensor_read(&json, input->dtype, count, to, size_bytes);
    return err ? tt_fail_in(err, why, "input '%.*s', within its \"data\"", (int)input->name_bytes,
                            input->name)
               : TT_OK;
}

/* Sets where the values of a JSON array are, and how many bytes they take in memory. */
static enum tt_err locate_array(struct tt_kserve_reader *reader, const struct input_draft *draft,
                                struct tt_kserve_input *input) {
    char printed[8 * 21 + 3];
    int64_t count = tt_shape_count(&input->shape, 0);
    if (count < 0 ||
        __builtin_mul_overflow((size_t)count, tt_dtype_bytes(input->dtype), &input->size_bytes))
        return tt_fail(TT_ERR_INVALID, reader->why, "input '%.*s': shape %s is too large",
                       (int)input->name_bytes, input->name,
                       tt_shape_print(&input->shape, printed, sizeof(printed)));
    tt_assert(draft->array >= reader->json.start);
    input->data = draft->array;
    input->data_bytes = draft->array_bytes;
    input->decode = tt_kserve_decode_array;
    input->decode_argument = reader->json.max_depth;
    /* Every value takes at least one byte of text, so a false shape reserves no memory. */
    if ((uint64_t)count > draft->array_bytes)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "input '%.*s': shape %s needs %lld values, \"data\" cannot hold as many",
                       (int)input->name_bytes, input->name,
                       tt_shape_print(&input->shape, printed, sizeof(printed)), (long long)count);
    if (input->dtype != TT_DTYPE_BYTES)
        return TT_OK;
    struct tt_json strings = reader->json;
    strings.at = draft->array;
    enum tt_err err = tt_json_tensor_measure(&strings, count, &input->size_bytes);
    return err ? tt_fail_in(err, reader->why, "input '%.*s'", (int)input->name_bytes, input->name)
               : TT_OK;
}

/* Takes the next bytes of the binary part. tt_kserve_begin compares their size with the shape. */
static enum tt_err locate_binary(struct tt_kserve_reader *reader, const struct input_draft *draft,
                                 struct tt_kserve_input *input) {
    if (!reader->allows_binary)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "input '%.*s' has a \"binary_data_size\", but the request has no "
                       "Inference-Header-Content-Length header to say where the JSON ends",
                       (int)input->name_bytes, input->name);
    uint64_t given = (uint64_t)draft->binary_bytes;
    if (given > reader->binary_left)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "input '%.*s': binary_data_size is %llu, but only %zu bytes are left after "
                       "the JSON",
                       (int)input->name_bytes, input->name, (unsigned long long)given,
                       reader->binary_left);
    input->data = reader->binary;
    input->data_bytes = input->size_bytes = given;
    input->decode = NULL;
    reader->binary += given; /* `given` <= binary_left */
    reader->binary_left -= given;
    return TT_OK;
}

static enum tt_err check_input(struct tt_kserve_reader *reader, const struct input_draft *draft,
                               unsigned seen) {
    for (int i = NAME; i <= DATATYPE; i++)
        if (!(seen & 1u << i))
            return tt_fail(TT_ERR_INVALID, reader->why, "\"%s\" is missing", input_members[i]);
    int sources =
        (draft->array != NULL) + (draft->binary_bytes >= 0) + (draft->share.region != NULL);
    if (draft->share.region && sources > 1)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "input '%.*s' is in shared memory; it must have no data besides",
                       (int)draft->input->name_bytes, draft->input->name);
    if (sources != 1)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "input '%.*s' has %s; it must have either \"data\" or the parameter "
                       "\"binary_data_size\"",
                       (int)draft->input->name_bytes, draft->input->name,
                       draft->array ? "both" : "no data");
    return TT_OK;
}

static enum tt_err read_input(struct tt_kserve_reader *reader) {
    struct tt_json *json = &reader->json;
    struct members at = {.first = true};
    if (reader->request->input_count == TT_MAX_TENSORS)
        return tt_fail(TT_ERR_INVALID, reader->why, "more than %d inputs", TT_MAX_TENSORS);
    struct input_draft draft = {.input = &reader->request->inputs[reader->request->input_count],
                                .binary_bytes = -1};
    enum tt_err err = tt_json_open(json, '{');
    for (int index; !err && next_member(reader, input_members, INPUT_MEMBERS, &at, &index, &err);)
        err = read_input_member(reader, index, &draft);
    if (!err)
        err = check_input(reader, &draft, at.seen);
    if (!err)
        draft.input->dtype = tt_dtype_parse(draft.input->datatype, draft.input->datatype_bytes);
    if (!err)
        err = draft.share.region
                  ? tt_kserve_share_input(reader->request, draft.input, &draft.share, reader->why)
              : draft.array ? locate_array(reader, &draft, draft.input)
                            : locate_binary(reader, &draft, draft.input);
    if (err)
        return tt_fail_in(err, reader->why, "inputs[%d]", reader->request->input_count);
    reader->request->input_count++;
    return TT_OK;
}

/* --- an output --- */

struct output_draft {
    struct tt_kserve_output output;
    struct tt_kserve_share_draft share;
};

static enum tt_err output_parameter(struct tt_kserve_reader *reader, const char *key, void *context,
                                    bool *out_taken) {
    struct output_draft *draft = context;
    struct tt_kserve_output *output = &draft->output;
    int64_t classes;
    *out_taken = true;
    if (strcmp(key, "binary_data") == 0)
        return tt_json_bool(&reader->json, key, &output->is_binary);
    if (strcmp(key, "classification") == 0) {
        enum tt_err err = tt_json_integer(&reader->json, key, 0, INT64_MAX, &classes);
        if (!err && classes > 0)
            err = tt_kserve_refuse_classification(reader->why);
        return err;
    }
    return read_share(reader, key, &draft->share, out_taken);
}

static enum tt_err read_output(struct tt_kserve_reader *reader) {
    static const char *const names[] = {"name", "parameters"};
    struct tt_json *json = &reader->json;
    struct output_draft draft = {.share.region = NULL};
    struct tt_kserve_output *output = &draft.output;
    struct members at = {.first = true};
    if (reader->request->output_count == TT_MAX_TENSORS)
        return tt_fail(TT_ERR_INVALID, reader->why, "more than %d outputs", TT_MAX_TENSORS);
    enum tt_err err = tt_json_open(json, '{');
    for (int index; !err && next_member(reader, names, 2, &at, &index, &err);)
        err = index == 0   ? read_string(reader, "name", &output->name, &output->name_bytes)
              : index == 1 ? read_parameters(reader, output_parameter, &draft)
                           : tt_json_skip(json);
    if (!err && !output->name_bytes)
        err = tt_fail(TT_ERR_INVALID, reader->why, "\"name\" is missing");
    if (!err && draft.share.region)
        err = tt_kserve_share_output(reader->request, output, &draft.share, reader->why);
    if (err)
        return tt_fail_in(err, reader->why, "outputs[%d]", reader->request->output_count);
    reader->request->outputs[reader->request->output_count++] = *output;
    return TT_OK;
}

/* --- the whole --- */

static enum tt_err read_array(struct tt_kserve_reader *reader,
                              enum tt_err each(struct tt_kserve_reader *)) {
    enum tt_err err = tt_json_open(&reader->json, '[');
    bool first = true, more = false;
    while (!err) {
        err = tt_json_next(&reader->json, ']', &first, &more);
        if (err || !more)
            break;
        err = each(reader);
    }
    return err;
}

static enum tt_err read_request(struct tt_kserve_reader *reader) {
    static const char *const names[] = {"id", "parameters", "inputs", "outputs"};
    struct tt_json *json = &reader->json;
    struct members at = {.first = true};
    enum tt_err err = tt_json_open(json, '{');
    for (int index; !err && next_member(reader, names, 4, &at, &index, &err);) {
        switch (index) {
        case 0: err = tt_kserve_read_id(reader); break;
        case 1:
            err = read_parameters(reader, tt_kserve_read_parameter, &reader->request->options);
            break;
        case 2: err = read_array(reader, read_input); break;
        case 3: err = read_array(reader, read_output); break;
        default: err = tt_json_skip(json); break;
        }
    }
    return err ? err : tt_json_end(json);
}

enum tt_err tt_kserve_json_glance(struct tt_kserve_request *out_request,
                                  const struct tt_kserve_json_body *body) {
    static const char *const names[] = {"id", "parameters"};
    size_t text_bytes = body->json_bytes < 0 ? body->size_bytes : (size_t)body->json_bytes;
    struct tt_error why;
    struct tt_kserve_reader reader = {.request = out_request, .why = &why};
    struct tt_json *json = &reader.json;
    struct members at = {.first = true};
    if (text_bytes == 0)
        return TT_OK;
    if (body->json_bytes < -1 || text_bytes > body->size_bytes)
        return TT_ERR_INVALID;
    tt_json_init(json, body->bytes, text_bytes, &why);
    json->max_depth = body->max_depth;
    enum tt_err err = tt_json_open(json, '{');
    for (int index = -1;
         !err && index != 1 && next_member(&reader, names, TT_COUNT(names), &at, &index, &err);)
        err = index == 0 ? tt_kserve_read_id(&reader)
              : index == 1
                  ? read_parameters(&reader, tt_kserve_read_parameter, &out_request->options)
              : tt_json_peek(json) == '[' ? tt_json_skip_array_unchecked(json)
                                          : tt_json_skip(json);
    return err;
}

/* Memory form of a BYTES tensor whose one element is the whole data. */
static enum tt_err decode_string(const struct tt_kserve_input *input, void *to, size_t size_bytes,
                                 struct tt_error *why) {
    (void)why;
    uint32_t length = (uint32_t)input->data_bytes;
    tt_assert(size_bytes == sizeof(length) + length);
    memcpy(to, &length, sizeof(length));
    memcpy((char *)to + sizeof(length), input->data, length);
    return TT_OK;
}

/* The shape of an input that is sent without JSON: one row, and at most one open dimension, which
 * follows from the size. */
static enum tt_err shape_raw(struct tt_kserve_reader *reader, const struct tt_tensor_spec *spec,
                             bool batched, struct tt_shape *out_shape) {
    struct tt_shape shape = spec->shape;
    int32_t unknown = -1;
    if (batched)
        shape.dims[0] = 1;
    for (int32_t i = 0; i < shape.rank; i++) {
        if (shape.dims[i] >= 0)
            continue;
        if (unknown >= 0 || spec->dtype == TT_DTYPE_BYTES)
            return tt_fail(TT_ERR_INVALID, reader->why,
                           "a raw binary request leaves the shape of input '%s' open; send it with "
                           "a JSON header",
                           spec->name);
        unknown = i;
        shape.dims[i] = 1;
    }
    size_t given = reader->binary_left, unit = 0;
    int64_t count = tt_shape_count(&shape, 0);
    bool fits = spec->dtype == TT_DTYPE_BYTES && count == 1 && given <= UINT32_MAX;
    if (spec->dtype != TT_DTYPE_BYTES && count > 0 &&
        !__builtin_mul_overflow((size_t)count, tt_dtype_bytes(spec->dtype), &unit)) {
        fits = unknown >= 0 ? given % unit == 0 : given == unit;
        if (unknown >= 0)
            shape.dims[unknown] = (int64_t)(given / unit);
    }
    if (!fits)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "a raw binary request of %zu bytes does not make one row of input '%s'",
                       given, spec->name);
    *out_shape = shape;
    return TT_OK;
}

/* The body is the only input itself. */
static enum tt_err read_raw(struct tt_kserve_reader *reader, const struct tt_signature *signature) {
    const struct tt_tensor_spec *spec = &signature->inputs[0];
    if (signature->input_count != 1)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "a raw binary request (Inference-Header-Content-Length: 0) needs a model "
                       "with one input; '%s' has %d",
                       reader->request->target.model, signature->input_count);
    struct tt_kserve_input *input = &reader->request->inputs[0];
    enum tt_err err = shape_raw(reader, spec, signature->batched, &input->shape);
    if (err)
        return err;
    bool is_string = spec->dtype == TT_DTYPE_BYTES;
    input->name = spec->name;
    input->name_bytes = strlen(spec->name);
    input->datatype = tt_dtype_name(spec->dtype);
    input->datatype_bytes = strlen(input->datatype);
    input->dtype = spec->dtype;
    input->data = reader->binary;
    input->data_bytes = reader->binary_left;
    input->size_bytes = reader->binary_left + (is_string ? sizeof(uint32_t) : 0);
    input->decode = is_string ? decode_string : NULL;
    reader->request->input_count = 1;
    reader->request->binary_output = true;
    return TT_OK;
}

enum tt_err tt_kserve_json_read(struct tt_kserve_request *out_request,
                                const struct tt_signature *signature,
                                const struct tt_kserve_json_body *body, struct tt_error *why) {
    int64_t json_bytes = body->json_bytes;
    if (json_bytes < -1 || (json_bytes >= 0 && (uint64_t)json_bytes > body->size_bytes))
        return tt_fail(TT_ERR_INVALID, why,
                       "Inference-Header-Content-Length must be a number of bytes, at most the "
                       "body's %zu",
                       body->size_bytes);
    size_t text_bytes = json_bytes < 0 ? body->size_bytes : (size_t)json_bytes;
    struct tt_kserve_reader reader = {.request = out_request,
                                      .binary = body->bytes + text_bytes,
                                      .binary_left = body->size_bytes - text_bytes,
                                      .allows_binary = json_bytes >= 0,
                                      .why = why};
    if (json_bytes == 0)
        return read_raw(&reader, signature);
    tt_json_init(&reader.json, body->bytes, text_bytes, why);
    reader.json.max_depth = body->max_depth;
    enum tt_err err = read_request(&reader);
    if (!err && reader.binary_left)
        err = tt_fail(TT_ERR_INVALID, why,
                      "unexpected additional input data for model '%s': %zu bytes after those that "
                      "the inputs' binary_data_size account for",
                      out_request->target.model, reader.binary_left);
    return err;
}
