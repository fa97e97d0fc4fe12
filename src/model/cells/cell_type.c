#include "model/cells/cells_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tt_cell_rows_equal(const struct tt_tensor_spec *a, const struct tt_tensor_spec *b) {
    if (a->dtype != b->dtype || a->shape.rank != b->shape.rank)
        return false;
    for (int32_t i = 1; i < a->shape.rank; i++)
        if (a->shape.dims[i] != b->shape.dims[i])
            return false;
    return true;
}

/* Takes the file "a.onnx" in the version's directory, and "a" as the default name. */
static bool take_names(struct tt_cells_work *work, const Tutti__ModelCell *message,
                       struct tt_cell_type *type) {
    size_t length = strlen(message->file);
    if (length == 0 || strchr(message->file, '/')) {
        tt_cells_problem(work, message, "file",
                         "a cell needs the name of its ONNX file, without directories: file: "
                         "\"cell.onnx\"");
        return false;
    }
    if (length > 5 && strcmp(message->file + length - 5, ".onnx") == 0)
        length -= 5;
    type->name = *message->name ? strdup(message->name) : strndup(message->file, length);
    if (asprintf(&type->path, "%s/%s", work->version_directory, message->file) < 0)
        type->path = NULL;
    work->no_memory |= !type->name || !type->path;
    return !work->no_memory;
}

static void take_batches(struct tt_cells_work *work, const Tutti__ModelCell *message,
                         struct tt_cell_type *type) {
    type->max_batch = message->max_batch ? message->max_batch : TT_CELLS_DEFAULT_MAX_BATCH;
    type->min_batch = message->min_batch ? message->min_batch : 1;
    if (type->max_batch < 1 || type->max_batch > TT_MODEL_LIMIT_MAX_BATCH)
        tt_cells_problem(work, message, "max_batch", "max_batch is %d; 1 to %d are possible",
                         message->max_batch, TT_MODEL_LIMIT_MAX_BATCH);
    else if (type->min_batch < 1 || type->min_batch > type->max_batch)
        tt_cells_problem(work, message, "min_batch",
                         "min_batch is %d; 1 to max_batch, %d, are possible", message->min_batch,
                         type->max_batch);
}

/* A tensor of a cell has the number of cells as dimension 0, and fixed other dimensions. */
static void check_tensor(struct tt_cells_work *work, const Tutti__ModelCell *message,
                         const char *path, const struct tt_onnx_value *value, const char *role) {
    const struct tt_tensor_spec *spec = &value->spec;
    bool good = value->has_shape && spec->shape.rank > 0 && spec->shape.dims[0] == -1;
    for (int32_t i = 1; good && i < spec->shape.rank; i++)
        good = spec->shape.dims[i] > 0;
    char shape[8 * 21];
    if (!good)
        tt_cells_problem(work, message, "file",
                         "%s: %s '%s' has shape %s; a cell's tensors have a symbolic first "
                         "dimension, the number of cells, and all others fixed",
                         path, role, spec->name,
                         value->has_shape ? tt_shape_print(&spec->shape, shape, sizeof(shape))
                                          : "(unknown)");
    if (spec->dtype == TT_DTYPE_BYTES)
        tt_cells_problem(work, message, "file",
                         "%s: %s '%s' holds strings, which cells cannot pass on", path, role,
                         spec->name);
}

static bool take_file(struct tt_cells_work *work, const Tutti__ModelCell *message,
                      struct tt_cell_type *type, struct tt_onnx_file **out_onnx) {
    struct tt_error why;
    struct tt_onnx_file *onnx = NULL;
    enum tt_err err = tt_onnx_file_read(type->path, &onnx, &why);
    if (err) {
        work->no_memory |= err == TT_ERR_NO_MEMORY;
        tt_cells_problem(work, message, "file", "%s", why.text);
        return false;
    }
    int32_t before = work->findings->problem_count;
    struct tt_signature *signature = &type->signature;
    signature->batched = true;
    signature->max_batch = type->max_batch;
    signature->input_count = onnx->input_count;
    signature->output_count = onnx->output_count;
    for (int32_t i = 0; i < onnx->input_count; i++) {
        check_tensor(work, message, type->path, &onnx->inputs[i], "input");
        signature->inputs[i] = onnx->inputs[i].spec;
    }
    for (int32_t i = 0; i < onnx->output_count; i++) {
        check_tensor(work, message, type->path, &onnx->outputs[i], "output");
        signature->outputs[i] = onnx->outputs[i].spec;
    }
    *out_onnx = onnx;
    return work->findings->problem_count == before;
}

/* Index of the tensor with that name; -1, and a problem that lists the names. */
static int32_t find_tensor(struct tt_cells_work *work, const struct tt_cell_type *type,
                           bool is_input, const char *name, const void *message,
                           const char *field) {
    const struct tt_tensor_spec *specs =
        is_input ? type->signature.inputs : type->signature.outputs;
    int32_t count = is_input ? type->signature.input_count : type->signature.output_count;
    char known[400] = "";
    size_t used = 0;
    for (int32_t i = 0; i < count; i++) {
        if (strcmp(specs[i].name, name) == 0)
            return i;
        if (used < sizeof(known))
            used += (size_t)snprintf(known + used, sizeof(known) - used, "%s'%s'", i ? ", " : "",
                                     specs[i].name);
    }
    const char *role = is_input ? "input" : "output";
    tt_cells_problem(work, message, field, "%s has no %s '%s'; it has: %s", type->path, role, name,
                     known);
    return -1;
}

/* Each input may be bound once: to a state or to an element. */
static void use_input(struct tt_cells_work *work, const struct tt_cell_type *type, bool *used,
                      int32_t input, const void *message, const char *field) {
    if (input < 0)
        return;
    if (used[input])
        tt_cells_problem(work, message, field, "input '%s' of cell '%s' is used twice",
                         type->signature.inputs[input].name, type->name);
    used[input] = true;
}

static void take_state(struct tt_cells_work *work, const Tutti__ModelCellState *message,
                       struct tt_cell_type *type, bool *used) {
    struct tt_cell_state *state = &type->states[type->state_count];
    state->initial = message->initial;
    state->in_place = message->in_place;
    type->has_cache |= state->in_place;
    state->output = find_tensor(work, type, false, message->output, message, "output");
    for (int32_t i = 0; i < type->state_count; i++)
        if (state->output >= 0 && type->states[i].output == state->output)
            tt_cells_problem(work, message, "output", "output '%s' is two states", message->output);
    if (message->n_input > TT_CELLS_MAX_ARITY) {
        tt_cells_problem(work, message, "input", "a cell reads at most %d others",
                         TT_CELLS_MAX_ARITY);
        return;
    }
    if (type->state_count++ == 0)
        type->arity = (int32_t)message->n_input;
    else if ((int32_t)message->n_input != type->arity)
        tt_cells_problem(work, message, "input",
                         "the cell's first state has %d inputs, one per cell that is read, but "
                         "this one has %zu",
                         type->arity, message->n_input);
    for (size_t i = 0; i < message->n_input; i++) {
        int32_t input = find_tensor(work, type, true, message->input[i], message, "input");
        use_input(work, type, used, input, message, "input");
        state->inputs[i] = input;
        if (input >= 0 && state->output >= 0 &&
            !tt_cell_rows_equal(&type->signature.inputs[input],
                                &type->signature.outputs[state->output]))
            tt_cells_problem(work, message, "input",
                             "input '%s' and output '%s' differ in element type or shape, and so "
                             "cannot be one state",
                             message->input[i], message->output);
    }
}

static bool is_integer(enum tt_dtype dtype) {
    return dtype >= TT_DTYPE_UINT8 && dtype <= TT_DTYPE_INT64;
}

/* True if a tensor of that type can hold the integer. */
static bool holds(enum tt_dtype dtype, int64_t value) {
    if (dtype == TT_DTYPE_FP16 || dtype == TT_DTYPE_BF16)
        return value == 0;
    if (dtype == TT_DTYPE_BOOL)
        return value == 0 || value == 1;
    if (!is_integer(dtype))
        return true;
    bool is_signed = dtype >= TT_DTYPE_INT8;
    int bits = 8 * (int)tt_dtype_bytes(dtype) - is_signed;
    if (bits >= 63)
        return is_signed || value >= 0;
    int64_t end = INT64_C(1) << bits;
    return value < end && value >= (is_signed ? -end : 0);
}

static void check_fill(struct tt_cells_work *work, const Tutti__ModelCellRead *message,
                       const struct tt_cell_type *type, const struct tt_tensor_spec *spec) {
    if (message->fill != 0 && type->elements == 1)
        tt_cells_problem(work, message, "fill",
                         "cell '%s' reads one element at a time, so that there is nothing to fill; "
                         "leave it out, or write elements: with how many it reads",
                         type->name);
    else if (!holds(spec->dtype, message->fill))
        tt_cells_problem(
            work, message, "fill", "input '%s' is %s, which cannot be filled with %lld%s",
            message->input, tt_dtype_name(spec->dtype), (long long)message->fill,
            tt_dtype_bytes(spec->dtype) == 2 && !is_integer(spec->dtype) ? ", only with 0" : "");
}

/* Makes of a read's tensor that of one element, and checks the dimension that counts elements. */
static bool take_element(struct tt_cells_work *work, const Tutti__ModelCellRead *message,
                         const struct tt_cell_type *type, struct tt_tensor_spec *spec) {
    struct tt_shape *shape = &spec->shape;
    char found[8 * 21];
    if (type->elements == 1)
        return true;
    if (shape->rank < 2 || shape->dims[1] != type->elements) {
        tt_cells_problem(work, message, "input",
                         "input '%s' of %s has shape %s; cell '%s' reads %d elements, so that its "
                         "second dimension is to be %d",
                         message->input, type->path, tt_shape_print(shape, found, sizeof(found)),
                         type->name, type->elements, type->elements);
        return false;
    }
    shape->rank--;
    memmove(shape->dims + 1, shape->dims + 2, (size_t)(shape->rank - 1) * sizeof(shape->dims[0]));
    return true;
}

static void take_read(struct tt_cells_work *work, const Tutti__ModelCellRead *message,
                      struct tt_cell_type *type, bool *used) {
    int32_t input = find_tensor(work, type, true, message->input, message, "input");
    use_input(work, type, used, input, message, "input");
    if (input < 0)
        return;
    struct tt_tensor_spec spec = type->signature.inputs[input];
    if (message->below < 0 || (message->below > 0 && !is_integer(spec.dtype)))
        tt_cells_problem(work, message, "below",
                         "below is how many integers there are, and input '%s' is %s",
                         message->input, tt_dtype_name(spec.dtype));
    check_fill(work, message, type, &spec);
    if (!take_element(work, message, type, &spec))
        return;
    const char *from = *message->from ? message->from : message->input;
    type->reads[type->read_count++] = (struct tt_cell_read){
        .input = input,
        .below = message->below,
        .fill = message->fill,
        .from = tt_cells_input(work, from, &spec, message, *message->from ? "from" : "input")};
}

/* Takes how many elements a cell reads. `index`: of the type in the model. */
static bool take_elements(struct tt_cells_work *work, const Tutti__ModelCell *message,
                          int32_t index, struct tt_cell_type *type) {
    enum tt_unfold_kind kind = work->cells->kind;
    int32_t before = work->findings->problem_count;
    type->elements = message->elements > 1 ? message->elements : 1;
    if (message->elements < 0 || message->elements > TT_CELLS_MAX_ELEMENTS)
        tt_cells_problem(work, message, "elements", "elements is %d; 1 to %d are possible",
                         message->elements, TT_CELLS_MAX_ELEMENTS);
    else if (type->elements == 1)
        return true;
    else if ((kind != TT_UNFOLD_CHAIN && kind != TT_UNFOLD_SEQ2SEQ) || index > 0)
        tt_cells_problem(work, message, "elements",
                         "only the cell of a CHAIN and the encoder of SEQ2SEQ read several "
                         "elements; leave it out");
    else if (message->n_read == 0)
        tt_cells_problem(work, message, "elements",
                         "cell '%s' reads nothing of the request; write read { input: ... }, or "
                         "leave elements out",
                         type->name);
    return work->findings->problem_count == before;
}

static void take_wiring(struct tt_cells_work *work, const Tutti__ModelCell *message,
                        struct tt_cell_type *type) {
    bool used[TT_MAX_TENSORS] = {0};
    type->emit = -1;
    if (message->n_state > TT_CELLS_MAX_STATES || message->n_read > TT_MAX_TENSORS) {
        tt_cells_problem(work, message, NULL, "a cell has at most %d states and %d reads",
                         TT_CELLS_MAX_STATES, TT_MAX_TENSORS);
        return;
    }
    for (size_t i = 0; i < message->n_state; i++)
        take_state(work, message->state[i], type, used);
    for (size_t i = 0; i < message->n_read; i++)
        take_read(work, message->read[i], type, used);
    if (*message->emit)
        type->emit = find_tensor(work, type, false, message->emit, message, "emit");
    for (int32_t i = 0; i < type->signature.input_count; i++)
        if (!used[i])
            tt_cells_problem(work, message, NULL,
                             "input '%s' of %s is neither a state nor read from the request",
                             type->signature.inputs[i].name, type->path);
}

static void add_file_digest(struct tt_text *text, const char *role, const char *path,
                            enum tt_err *err, struct tt_error *why) {
    char digest[TT_DIGEST_BYTES];
    if (!*err)
        *err = tt_digest_file(path, digest, why);
    if (!*err)
        tt_text_printf(text, "%s %s\n", role, digest);
}

/* C1: the digest covers the file's bytes (definition, weights, shapes), those of its external
 * weights, and the wiring, which is not in the files. */
static void take_digest(struct tt_cells_work *work, const Tutti__ModelCell *message,
                        const struct tt_onnx_file *onnx, struct tt_cell_type *type) {
    struct tt_text text;
    struct tt_error why;
    enum tt_err err = TT_OK;
    tt_text_init(&text);
    add_file_digest(&text, "file", type->path, &err, &why);
    for (int32_t i = 0; i < onnx->external_count; i++) {
        char *path = NULL;
        if (asprintf(&path, "%s/%s", work->version_directory, onnx->externals[i]) < 0) {
            work->no_memory = true;
            break;
        }
        add_file_digest(&text, onnx->externals[i], path, &err, &why);
        free(path);
    }
    for (int32_t i = 0; i < type->state_count; i++) {
        const struct tt_cell_state *state = &type->states[i];
        tt_text_printf(&text, "state %d %lld%s", state->output, (long long)state->initial,
                       state->in_place ? " in place" : "");
        for (int32_t j = 0; j < type->arity; j++)
            tt_text_printf(&text, " %d", state->inputs[j]);
        tt_text_puts(&text, "\n");
    }
    for (int32_t i = 0; i < type->read_count; i++) {
        tt_text_printf(&text, "read %d", type->reads[i].input);
        if (type->elements > 1)
            tt_text_printf(&text, " %d %lld", type->elements, (long long)type->reads[i].fill);
        tt_text_puts(&text, "\n");
    }
    tt_text_printf(&text, "emit %d\n", type->emit);
    if (!err)
        err = tt_digest_bytes(text.bytes, text.length, type->digest, &why);
    work->no_memory |= text.failed || err == TT_ERR_NO_MEMORY;
    if (err)
        tt_cells_problem(work, message, "file", "%s", why.text);
    tt_text_fini(&text);
}

void tt_cell_type_read(struct tt_cells_work *work, int32_t index) {
    const Tutti__ModelCell *message = work->settings->message->cell[index];
    struct tt_cell_type *type = &work->cells->types[index];
    struct tt_onnx_file *onnx = NULL;
    take_batches(work, message, type);
    if (take_names(work, message, type) && take_file(work, message, type, &onnx)) {
        int32_t before = work->findings->problem_count;
        if (take_elements(work, message, index, type))
            take_wiring(work, message, type);
        if (work->findings->problem_count == before)
            take_digest(work, message, onnx, type);
    }
    for (int32_t i = 0; i < index && type->name; i++)
        if (work->cells->types[i].name && strcmp(work->cells->types[i].name, type->name) == 0)
            tt_cells_problem(work, message, *message->name ? "name" : "file",
                             "two cells are named '%s'", type->name);
    free(onnx);
}

void tt_cell_type_fini(struct tt_cell_type *type) {
    free(type->name);
    free(type->path);
}

int32_t tt_cells_input(struct tt_cells_work *work, const char *name,
                       const struct tt_tensor_spec *row, const void *message, const char *field) {
    struct tt_signature *signature = &work->cells->signature;
    struct tt_tensor_spec spec = {.dtype = TT_DTYPE_INT64, .shape = {.rank = 2, .dims = {-1, -1}}};
    if (row)
        spec.dtype = row->dtype;
    for (int32_t i = 1; row && i < row->shape.rank && i < TT_MAX_RANK - 1; i++)
        spec.shape.dims[spec.shape.rank++] = row->shape.dims[i];
    if (strlen(name) >= sizeof(spec.name) || (row && row->shape.rank == TT_MAX_RANK)) {
        tt_cells_problem(work, message, field,
                         "'%.60s' has too long a name, or too many dimensions", name);
        return -1;
    }
    strcpy(spec.name, name);
    for (int32_t i = 0; i < signature->input_count; i++) {
        if (strcmp(signature->inputs[i].name, name) != 0)
            continue;
        if (tt_cell_rows_equal(&signature->inputs[i], &spec))
            return i;
        tt_cells_problem(work, message, field,
                         "the request's tensor '%s' is read twice, as different element types or "
                         "shapes",
                         name);
        return -1;
    }
    if (signature->input_count == TT_MAX_TENSORS) {
        tt_cells_problem(work, message, field, "more than the %d tensors that Tutti carries",
                         TT_MAX_TENSORS);
        return -1;
    }
    signature->inputs[signature->input_count] = spec;
    return signature->input_count++;
}
