#include "net/kserve/kserve.h"

#include "net/json/json_tensor.h"

#include <stdio.h>
#include <string.h>

void tt_kserve_request_init(struct tt_kserve_request *self) {
    /* The arrays are long, and only their first members are ever read. */
    tt_text_init(&self->id);
    self->options = (struct tt_infer_options){0};
    self->input_count = self->output_count = 0;
    self->binary_output = false;
    self->json_depth = TT_JSON_MAX_DEPTH;
}

void tt_kserve_request_fini(struct tt_kserve_request *self) { tt_text_fini(&self->id); }

/* What the readers of the parts share. */
struct reader {
    struct tt_json json;
    struct tt_kserve_request *request;
    const struct tt_signature *signature;
    const char *model_name;
    const char *binary; /* the next binary tensor */
    size_t binary_left;
    bool allows_binary;
    struct tt_error *why;
};

/* Members that an object may have once: `seen` has a bit for each. */
static enum tt_err member(struct reader *reader, const char *const names[], int count,
                          const char *key, unsigned *seen, int *out_index) {
    for (int i = 0; i < count; i++) {
        if (strcmp(key, names[i]) != 0)
            continue;
        if (*seen & 1u << i)
            return tt_fail(TT_ERR_INVALID, reader->why, "JSON, byte %zu: \"%s\" is given twice",
                           (size_t)(reader->json.at - reader->json.start), key);
        *seen |= 1u << i;
        *out_index = i;
        return TT_OK;
    }
    *out_index = -1;
    return TT_OK;
}

/* An object under way. */
struct members {
    bool first;
    unsigned seen;
};

/* The next member of the object, of those of these names; -1: of another one. False: there is none,
 * or *out_err. */
static bool next_member(struct reader *reader, const char *const names[], int count,
                        struct members *at, int *out_index, enum tt_err *out_err) {
    bool more = false;
    char key[32];
    enum tt_err err = tt_json_next(&reader->json, '}', &at->first, &more);
    if (!err && more)
        err = tt_json_key(&reader->json, key, sizeof(key));
    if (!err && more)
        err = member(reader, names, count, key, &at->seen, out_index);
    *out_err = err;
    return !err && more;
}

typedef enum tt_err parameter_fn(struct reader *reader, const char *key, void *context,
                                 bool *out_taken);

/* An object of parameters; those that `take` does not know are passed over. */
static enum tt_err read_parameters(struct reader *reader, parameter_fn *take, void *context) {
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

static enum tt_err refuse_shared_memory(struct reader *reader, const char *key) {
    if (strncmp(key, "shared_memory_", 14) == 0)
        return tt_fail(TT_ERR_UNSUPPORTED, reader->why,
                       "\"%s\": shared memory is not supported; send the tensor in the body", key);
    return TT_OK;
}

/* --- the request's own members --- */

static enum tt_err request_parameter(struct reader *reader, const char *key, void *context,
                                     bool *out_taken) {
    struct tt_infer_options *options = context;
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
            err = tt_fail(TT_ERR_UNSUPPORTED, reader->why,
                          "\"sequence_id\": sequences are not supported; leave it out");
    } else if (strncmp(key, "triton_", 7) == 0) {
        err = tt_fail(TT_ERR_INVALID, reader->why,
                      "\"%s\": parameter keys that start with \"triton_\" are reserved", key);
    } else {
        *out_taken = false;
    }
    return err;
}

static enum tt_err read_id(struct reader *reader) {
    struct tt_json *json = &reader->json;
    tt_json_peek(json);
    const char *from = json->at;
    size_t length;
    enum tt_err err = tt_json_string(json, NULL, &length);
    if (err)
        return tt_fail_in(err, reader->why, "\"id\"");
    tt_text_append(&reader->request->id, from, (size_t)(json->at - from));
    return reader->request->id.failed
               ? tt_fail(TT_ERR_NO_MEMORY, reader->why, "no memory for \"id\"")
               : TT_OK;
}

/* --- an input --- */

struct input_draft {
    char name[TT_MAX_NAME_BYTES];
    char datatype[16];
    struct tt_shape shape;
    const char *data; /* the JSON array */
    size_t data_bytes;
    int64_t binary_bytes; /* -1: not binary */
};

static enum tt_err input_parameter(struct reader *reader, const char *key, void *context,
                                   bool *out_taken) {
    struct input_draft *draft = context;
    *out_taken = strcmp(key, "binary_data_size") == 0;
    if (*out_taken)
        return tt_json_integer(&reader->json, key, 0, INT64_MAX, &draft->binary_bytes);
    return refuse_shared_memory(reader, key);
}

static enum tt_err read_shape(struct reader *reader, struct tt_shape *out_shape) {
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
                           "\"shape\" has more than %d dimensions, the most that is taken",
                           TT_MAX_RANK);
        err = tt_json_integer(json, "shape", 0, INT64_MAX, &out_shape->dims[out_shape->rank++]);
    }
    return err;
}

enum { NAME, SHAPE, DATATYPE, PARAMETERS, DATA, INPUT_MEMBERS };
static const char *const input_members[] = {"name", "shape", "datatype", "parameters", "data"};

static enum tt_err read_input_member(struct reader *reader, int index, struct input_draft *draft) {
    struct tt_json *json = &reader->json;
    enum tt_err err;
    switch (index) {
    case NAME: return tt_json_string_z(json, "name", draft->name, sizeof(draft->name));
    case SHAPE: return read_shape(reader, &draft->shape);
    case DATATYPE:
        return tt_json_string_z(json, "datatype", draft->datatype, sizeof(draft->datatype));
    case PARAMETERS: return read_parameters(reader, input_parameter, draft);
    case DATA:
        tt_json_peek(json);
        draft->data = json->at;
        err = tt_json_skip_array_unchecked(json);
        draft->data_bytes = (size_t)(json->at - draft->data);
        return err;
    default: return tt_json_skip(json);
    }
}

static int32_t find_spec(const struct tt_tensor_spec *specs, int32_t count, const char *name) {
    for (int32_t i = 0; i < count; i++)
        if (strcmp(specs[i].name, name) == 0)
            return i;
    return -1;
}

/* Looks the input up in the signature and checks its type. */
static enum tt_err resolve_input(struct reader *reader, const struct input_draft *draft,
                                 unsigned seen, struct tt_kserve_input *input) {
    const struct tt_signature *signature = reader->signature;
    for (int i = NAME; i <= DATATYPE; i++)
        if (!(seen & 1u << i))
            return tt_fail(TT_ERR_INVALID, reader->why, "\"%s\" is missing", input_members[i]);
    int32_t index = find_spec(signature->inputs, signature->input_count, draft->name);
    if (index < 0)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "unexpected inference input '%s' for model '%s'; its %s '%s'", draft->name,
                       reader->model_name,
                       signature->input_count == 1 ? "one input is" : "first input is",
                       signature->inputs[0].name);
    for (int32_t i = 0; i < reader->request->input_count; i++)
        if (reader->request->inputs[i].shape.input == index)
            return tt_fail(TT_ERR_INVALID, reader->why, "input '%s' is given twice", draft->name);
    enum tt_dtype wanted = signature->inputs[index].dtype;
    if (tt_dtype_parse(draft->datatype, strlen(draft->datatype)) != wanted)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "inference input '%s' data-type is '%s', but model '%s' expects '%s'",
                       draft->name, draft->datatype, reader->model_name, tt_dtype_name(wanted));
    if ((draft->data != NULL) == (draft->binary_bytes >= 0))
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "input '%s' has %s; it must have either \"data\" or the parameter "
                       "\"binary_data_size\"",
                       draft->name, draft->data ? "both" : "no data");
    input->shape = (struct tt_inference_shape){.input = index, .shape = draft->shape};
    return TT_OK;
}

/* Where its values lie, and how many bytes they take in memory. */
static enum tt_err locate_values(struct reader *reader, const struct input_draft *draft,
                                 struct tt_kserve_input *input) {
    const struct tt_tensor_spec *spec = &reader->signature->inputs[input->shape.input];
    char printed[8 * 21 + 3];
    tt_shape_print(&draft->shape, printed, sizeof(printed));
    int64_t count = tt_shape_count(&draft->shape, 0);
    size_t element_bytes = tt_dtype_bytes(spec->dtype);
    if (count < 0 || __builtin_mul_overflow((size_t)count, element_bytes, &input->size_bytes))
        return tt_fail(TT_ERR_INVALID, reader->why, "input '%s': shape %s is too large", spec->name,
                       printed);
    input->is_json = draft->data != NULL;
    input->is_raw_string = false;
    input->data = draft->data;
    input->data_bytes = draft->data_bytes;
    if (input->is_json) {
        /* Every value takes a byte of text at least, so a lying shape reserves no memory. */
        if ((uint64_t)count > draft->data_bytes)
            return tt_fail(TT_ERR_INVALID, reader->why,
                           "input '%s': shape %s needs %lld values, \"data\" cannot hold as many",
                           spec->name, printed, (long long)count);
        if (spec->dtype != TT_DTYPE_BYTES)
            return TT_OK;
        struct tt_json strings = reader->json;
        strings.at = draft->data;
        enum tt_err err = tt_json_tensor_measure(&strings, count, &input->size_bytes);
        return err ? tt_fail_in(err, reader->why, "input '%s'", spec->name) : TT_OK;
    }
    if (!reader->allows_binary)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "input '%s' has a \"binary_data_size\", but the request has no "
                       "Inference-Header-Content-Length header to say where the JSON ends",
                       spec->name);
    uint64_t given = (uint64_t)draft->binary_bytes;
    if (spec->dtype != TT_DTYPE_BYTES && given != input->size_bytes)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "input '%s': binary_data_size is %llu, but shape %s of %s takes %zu bytes",
                       spec->name, (unsigned long long)given, printed, tt_dtype_name(spec->dtype),
                       input->size_bytes);
    if (given > reader->binary_left)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "input '%s': binary_data_size is %llu, but only %zu bytes are left behind "
                       "the JSON",
                       spec->name, (unsigned long long)given, reader->binary_left);
    input->data = reader->binary;
    input->data_bytes = input->size_bytes = given;
    reader->binary += given;
    reader->binary_left -= given;
    if (spec->dtype != TT_DTYPE_BYTES)
        return TT_OK;
    enum tt_err err = tt_bytes_tensor_check(input->data, given, count, reader->why);
    return err ? tt_fail_in(err, reader->why, "input '%s' of shape %s", spec->name, printed)
               : TT_OK;
}

static enum tt_err read_input(struct reader *reader) {
    struct tt_json *json = &reader->json;
    struct input_draft draft;
    draft.name[0] = draft.datatype[0] = '\0';
    draft.data = NULL;
    draft.data_bytes = 0;
    draft.binary_bytes = -1;
    struct members at = {.first = true};
    if (reader->request->input_count == TT_MAX_TENSORS)
        return tt_fail(TT_ERR_INVALID, reader->why, "more than %d inputs", TT_MAX_TENSORS);
    enum tt_err err = tt_json_open(json, '{');
    for (int index; !err && next_member(reader, input_members, INPUT_MEMBERS, &at, &index, &err);)
        err = read_input_member(reader, index, &draft);
    struct tt_kserve_input *input = &reader->request->inputs[reader->request->input_count];
    if (!err)
        err = resolve_input(reader, &draft, at.seen, input);
    if (!err)
        err = locate_values(reader, &draft, input);
    if (err)
        return tt_fail_in(err, reader->why, "inputs[%d]", reader->request->input_count);
    reader->request->input_count++;
    return TT_OK;
}

/* --- an output --- */

static enum tt_err output_parameter(struct reader *reader, const char *key, void *context,
                                    bool *out_taken) {
    struct tt_kserve_output *output = context;
    int64_t classes;
    *out_taken = true;
    if (strcmp(key, "binary_data") == 0)
        return tt_json_bool(&reader->json, key, &output->is_binary);
    if (strcmp(key, "classification") == 0) {
        enum tt_err err = tt_json_integer(&reader->json, key, 0, INT64_MAX, &classes);
        if (!err && classes > 0)
            err = tt_fail(TT_ERR_UNSUPPORTED, reader->why,
                          "\"classification\" is not supported; ask for the output itself");
        return err;
    }
    *out_taken = false;
    return refuse_shared_memory(reader, key);
}

static enum tt_err resolve_output(struct reader *reader, const char *name,
                                  struct tt_kserve_output *output) {
    const struct tt_signature *signature = reader->signature;
    if (!*name)
        return tt_fail(TT_ERR_INVALID, reader->why, "\"name\" is missing");
    output->output = find_spec(signature->outputs, signature->output_count, name);
    if (output->output < 0)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "unexpected inference output '%s' for model '%s'; its %s '%s'", name,
                       reader->model_name,
                       signature->output_count == 1 ? "one output is" : "first output is",
                       signature->outputs[0].name);
    for (int32_t i = 0; i < reader->request->output_count; i++)
        if (reader->request->outputs[i].output == output->output)
            return tt_fail(TT_ERR_INVALID, reader->why, "output '%s' is given twice", name);
    return TT_OK;
}

static enum tt_err read_output(struct reader *reader) {
    static const char *const names[] = {"name", "parameters"};
    struct tt_json *json = &reader->json;
    struct tt_kserve_output output = {0};
    char name[TT_MAX_NAME_BYTES] = "";
    struct members at = {.first = true};
    enum tt_err err = tt_json_open(json, '{');
    for (int index; !err && next_member(reader, names, 2, &at, &index, &err);)
        err = index == 0   ? tt_json_string_z(json, "name", name, sizeof(name))
              : index == 1 ? read_parameters(reader, output_parameter, &output)
                           : tt_json_skip(json);
    if (!err)
        err = resolve_output(reader, name, &output);
    if (err)
        return tt_fail_in(err, reader->why, "outputs[%d]", reader->request->output_count);
    reader->request->outputs[reader->request->output_count++] = output;
    return TT_OK;
}

/* --- the whole --- */

static enum tt_err read_array(struct reader *reader, enum tt_err each(struct reader *)) {
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

static enum tt_err read_request(struct reader *reader) {
    static const char *const names[] = {"id", "parameters", "inputs", "outputs"};
    struct tt_json *json = &reader->json;
    struct members at = {.first = true};
    enum tt_err err = tt_json_open(json, '{');
    for (int index; !err && next_member(reader, names, 4, &at, &index, &err);) {
        switch (index) {
        case 0: err = read_id(reader); break;
        case 1: err = read_parameters(reader, request_parameter, &reader->request->options); break;
        case 2: err = read_array(reader, read_input); break;
        case 3: err = read_array(reader, read_output); break;
        default: err = tt_json_skip(json); break;
        }
    }
    return err ? err : tt_json_end(json);
}

static enum tt_err check_complete(struct reader *reader) {
    const struct tt_signature *signature = reader->signature;
    const struct tt_kserve_request *request = reader->request;
    for (int32_t want = 0; want < signature->input_count; want++) {
        bool found = false;
        for (int32_t i = 0; i < request->input_count; i++)
            found |= request->inputs[i].shape.input == want;
        if (!found)
            return tt_fail(TT_ERR_INVALID, reader->why,
                           "expected %d inputs but got %d inputs for model '%s': input '%s' is "
                           "missing",
                           signature->input_count, request->input_count, reader->model_name,
                           signature->inputs[want].name);
    }
    if (reader->binary_left)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "unexpected additional input data for model '%s': %zu bytes behind those "
                       "that the inputs' binary_data_size account for",
                       reader->model_name, reader->binary_left);
    return TT_OK;
}

/* The body is the one input itself; its shape follows from its size. */
static enum tt_err read_raw(struct reader *reader) {
    const struct tt_signature *signature = reader->signature;
    const struct tt_tensor_spec *spec = &signature->inputs[0];
    if (signature->input_count != 1)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "a raw binary request (Inference-Header-Content-Length: 0) needs a model "
                       "with one input; '%s' has %d",
                       reader->model_name, signature->input_count);
    struct tt_shape shape = spec->shape;
    int32_t unknown = -1;
    if (signature->batched)
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
    size_t given = reader->binary_left, element_bytes = tt_dtype_bytes(spec->dtype);
    int64_t count = tt_shape_count(&shape, 0);
    struct tt_kserve_input *input = &reader->request->inputs[0];
    *input = (struct tt_kserve_input){.data = reader->binary, .data_bytes = given};
    input->is_raw_string = spec->dtype == TT_DTYPE_BYTES;
    input->size_bytes = given + (input->is_raw_string ? 4 : 0);
    bool fits = input->is_raw_string ? count == 1 && given <= UINT32_MAX : false;
    size_t unit = 0;
    if (!input->is_raw_string && count > 0 &&
        !__builtin_mul_overflow((size_t)count, element_bytes, &unit)) {
        fits = unknown >= 0 ? given % unit == 0 : given == unit;
        if (unknown >= 0)
            shape.dims[unknown] = (int64_t)(given / unit);
    }
    if (!fits)
        return tt_fail(TT_ERR_INVALID, reader->why,
                       "a raw binary request of %zu bytes does not make one row of input '%s'",
                       given, spec->name);
    input->shape.shape = shape;
    reader->request->input_count = 1;
    reader->request->binary_output = true;
    return TT_OK;
}

enum tt_err tt_kserve_read(struct tt_kserve_request *self, const struct tt_signature *signature,
                           const char *model_name, const char *body, size_t body_bytes,
                           int64_t json_bytes, struct tt_error *why) {
    if (json_bytes < -1 || (json_bytes >= 0 && (uint64_t)json_bytes > body_bytes))
        return tt_fail(TT_ERR_INVALID, why,
                       "Inference-Header-Content-Length must be a number of bytes, at most the "
                       "body's %zu",
                       body_bytes);
    size_t text_bytes = json_bytes < 0 ? body_bytes : (size_t)json_bytes;
    struct reader reader = {.request = self,
                            .signature = signature,
                            .model_name = model_name,
                            .binary = body + text_bytes,
                            .binary_left = body_bytes - text_bytes,
                            .allows_binary = json_bytes >= 0,
                            .why = why};
    if (json_bytes == 0)
        return read_raw(&reader);
    tt_json_init(&reader.json, body, text_bytes, why);
    reader.json.max_depth = self->json_depth;
    enum tt_err err = read_request(&reader);
    return err ? err : check_complete(&reader);
}

enum tt_err tt_kserve_fill(const struct tt_kserve_request *self,
                           const struct tt_signature *signature, int32_t i, void *to,
                           size_t size_bytes, struct tt_error *why) {
    const struct tt_kserve_input *input = &self->inputs[i];
    const struct tt_tensor_spec *spec = &signature->inputs[input->shape.input];
    tt_assert(size_bytes == input->size_bytes);
    if (input->is_json) {
        struct tt_json json;
        tt_json_init(&json, input->data, input->data_bytes, why);
        json.max_depth = self->json_depth;
        int64_t count = tt_shape_count(&input->shape.shape, 0);
        enum tt_err err = tt_json_tensor_read(&json, spec->dtype, count, to, size_bytes);
        return err ? tt_fail_in(err, why, "input '%s', within its \"data\"", spec->name) : TT_OK;
    }
    if (input->is_raw_string) {
        uint32_t length = (uint32_t)input->data_bytes;
        memcpy(to, &length, sizeof(length));
        to = (char *)to + sizeof(length);
    }
    if (input->data_bytes)
        memcpy(to, input->data, input->data_bytes);
    return TT_OK;
}

enum tt_err tt_kserve_begin(struct tt_kserve_request *self, struct tt_port *port,
                            struct tt_served_model *model, const char *body, size_t body_bytes,
                            int64_t json_bytes, struct tt_inference **out_infer,
                            struct tt_error *why) {
    const struct tt_signature *signature = tt_served_model_signature(model);
    enum tt_err err = tt_kserve_read(self, signature, tt_served_model_name(model), body, body_bytes,
                                     json_bytes, why);
    if (err)
        return err;
    struct tt_inference_shape shapes[TT_MAX_TENSORS];
    size_t sizes_bytes[TT_MAX_TENSORS];
    for (int32_t i = 0; i < self->input_count; i++) {
        shapes[i] = self->inputs[i].shape;
        sizes_bytes[i] = self->inputs[i].size_bytes;
    }
    struct tt_inference *infer;
    err = tt_inference_begin(port, model, shapes, sizes_bytes, self->input_count, &infer, why);
    if (err)
        return err;
    for (int32_t i = 0; i < self->input_count && !err; i++) {
        size_t size_bytes;
        void *to = tt_inference_input(infer, shapes[i].input, &size_bytes);
        err = tt_kserve_fill(self, signature, i, to, size_bytes, why);
    }
    if (err) {
        tt_inference_release(infer);
        return err;
    }
    *out_infer = infer;
    return TT_OK;
}
