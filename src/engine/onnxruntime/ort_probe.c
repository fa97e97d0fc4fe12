#include "engine/onnxruntime/ort_probe.h"
#include "engine/onnxruntime/ort_check.h"

#include "base/text.h"
#include "engine/onnxruntime/ort_session.h"
#include "engine/onnxruntime/ort_tensor.h"
#include "engine/row_compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 3, MAX_BATCHES = 6, ODD_LESS = 3 };

struct probe {
    const struct tt_engine_probe_options *options;
    OrtSession *session;
    int32_t count;      /* tensors that are observed: all that depend on input data */
    int32_t *tensors;   /* [count] */
    const char **names; /* [count] */
    int32_t length;     /* of the current pass */
    bool *rounded;      /* [count] */
    struct tt_error *why;
};

static enum tt_err no_memory(struct probe *p) {
    return tt_fail(TT_ERR_NO_MEMORY, p->why, "out of memory");
}

/* ---- a session whose outputs are all tensors ---- */

static enum tt_err choose_tensors(struct probe *p) {
    const struct tt_onnx_graph *graph = p->options->graph;
    size_t most = (size_t)graph->tensor_count + 1;
    p->tensors = calloc(most, sizeof(*p->tensors));
    p->names = calloc(most, sizeof(*p->names));
    p->rounded = calloc(most, sizeof(*p->rounded));
    if (!p->tensors || !p->names || !p->rounded)
        return no_memory(p);
    for (int32_t t = 0; t < graph->tensor_count; t++) {
        const struct tt_onnx_tensor *tensor = &graph->tensors[t];
        if (tensor->producer < 0 || (tensor->from_shapes && !tensor->is_output) ||
            tensor->last_use < 0)
            continue;
        p->tensors[p->count] = t;
        p->names[p->count++] = tensor->name;
    }
    return TT_OK;
}

/* Packs the graph with the chosen tensors as its outputs, and then restores its own outputs. */
static enum tt_err pack_with_outputs(struct probe *p, struct tt_text *out_bytes) {
    Onnx__Model *model = p->options->graph->model;
    Onnx__Graph *graph = model->graph;
    Onnx__Value **given = graph->output;
    size_t given_count = graph->n_output;
    Onnx__Value *values = calloc((size_t)p->count + 1, sizeof(*values));
    graph->output = calloc((size_t)p->count + 1, sizeof(Onnx__Value *));
    graph->n_output = (size_t)p->count;
    char *to = NULL;
    if (values && graph->output) {
        for (int32_t i = 0; i < p->count; i++) {
            onnx__value__init(&values[i]);
            values[i].name = (char *)p->names[i];
            graph->output[i] = &values[i];
        }
        to = tt_text_reserve(out_bytes, onnx__model__get_packed_size(model));
        if (to)
            out_bytes->length += onnx__model__pack(model, (uint8_t *)to);
    }
    free(graph->output);
    free(values);
    graph->output = given;
    graph->n_output = given_count;
    return to ? TT_OK : no_memory(p);
}

static enum tt_err open_session(struct probe *p) {
    const struct tt_ort_library *library = tt_ort_probe_library(p->options);
    OrtSessionOptions *session_options = NULL;
    struct tt_text bytes;
    tt_text_init(&bytes);
    enum tt_err err = choose_tensors(p);
    if (!err)
        err = pack_with_outputs(p, &bytes);
    if (!err)
        err = tt_ort_session_options_new(library, TT_ORT_OPTIMIZE_NONE, &session_options, p->why);
    if (!err)
        err =
            tt_ort_check(library,
                         library->api->CreateSessionFromArray(
                             library->env, bytes.bytes, bytes.length, session_options, &p->session),
                         p->why);
    if (session_options)
        library->api->ReleaseSessionOptions(session_options);
    tt_text_fini(&bytes);
    return err;
}

/* Reads what the runtime's type inference knows of the tensor: its type and fixed dimensions. */
static enum tt_err read_type(struct probe *p, int32_t index) {
    const OrtApi *api = tt_ort_probe_library(p->options)->api;
    struct tt_onnx_tensor *tensor = &p->options->graph->tensors[p->tensors[index]];
    OrtTypeInfo *type = NULL;
    const OrtTensorTypeAndShapeInfo *info = NULL;
    enum tt_err err =
        tt_ort_check(tt_ort_probe_library(p->options),
                     api->SessionGetOutputTypeInfo(p->session, (size_t)index, &type), p->why);
    if (err)
        return err;
    ONNXTensorElementDataType element;
    size_t rank;
    OrtStatus *status = api->CastTypeInfoToTensorInfo(type, &info);
    tensor->dense = !status && info;
    if (tensor->dense) {
        status = api->GetTensorElementType(info, &element);
        if (!status)
            status = api->GetDimensionsCount(info, &rank);
        if (!status) {
            tensor->dtype =
                tt_onnx_dtype((int32_t)element); /* the API and ONNX files use the same numbers */
            tensor->dense = tensor->dtype != TT_DTYPE_NONE && rank <= TT_MAX_RANK;
        }
        if (!status && tensor->dense) {
            tensor->shape.rank = (int32_t)rank;
            status = api->GetDimensions(info, tensor->shape.dims, rank);
        }
    }
    err = tt_ort_check(tt_ort_probe_library(p->options), status, p->why);
    api->ReleaseTypeInfo(type);
    return err;
}

/* ---- runs ---- */

static void free_values(struct probe *p, OrtValue **values) {
    for (int32_t i = 0; values && i < p->count; i++)
        if (values[i])
            tt_ort_probe_library(p->options)->api->ReleaseValue(values[i]);
    free(values);
}

static enum tt_err run(struct probe *p, OrtSession *session, const char *const *names,
                       int32_t count, const struct tt_synthetic_input *synthetic,
                       OrtValue **out_values) {
    return tt_ort_session_run(tt_ort_probe_library(p->options), session, p->options->signature,
                              synthetic, names, count, out_values, p->why);
}

/* Runs rows first .. first + rows - 1, and returns all chosen tensors. */
static enum tt_err run_rows(struct probe *p, int32_t first, int32_t rows,
                            enum tt_synthetic_input_kind kind, OrtValue ***out_values) {
    struct tt_synthetic_input synthetic;
    enum tt_err err = tt_synthetic_input_init(&synthetic, p->options->signature, first, rows,
                                              p->length, kind, p->why);
    if (err)
        return err;
    OrtValue **values = calloc((size_t)p->count + 1, sizeof(OrtValue *));
    err = values ? run(p, p->session, p->names, p->count, &synthetic, values) : no_memory(p);
    tt_synthetic_input_fini(&synthetic);
    if (err) {
        free_values(p, values);
        return err;
    }
    *out_values = values;
    return TT_OK;
}

/* ---- independence of rows ---- */

struct batch {
    int32_t first, rows;
    OrtValue **values;
};

/* What one tensor was in each batch. views[0..2] are rows 0, 1 and 2 alone; the others combine
 * them.
 */
struct sightings {
    enum tt_dtype dtype;
    const struct batch *batches;
    int32_t count;
    struct tt_tensor_view views[MAX_BATCHES];
    char *row; /* memory for one */
};

/* Compares row `r` of batch `k`, in which dimension `dim` counts the rows, with the same row alone.
 */
static enum tt_row_match match_row(const struct sightings *seen, int32_t k, int32_t r,
                                   int32_t dim) {
    const struct tt_tensor_view *view = &seen->views[k];
    const struct tt_tensor_view *single = &seen->views[seen->batches[k].first + r];
    size_t parts = 1, rows = (size_t)seen->batches[k].rows;
    for (int32_t d = 0; d < dim; d++)
        parts *= (size_t)view->shape.dims[d];
    size_t part_bytes = parts ? single->size_bytes / parts : 0;
    const char *from = (const char *)view->bytes + part_bytes * (size_t)r;
    if (parts == 1)
        return tt_row_compare(from, single->bytes, single->size_bytes, seen->dtype);
    for (size_t i = 0; i < parts; i++)
        memcpy(seen->row + i * part_bytes, from + i * part_bytes * rows, part_bytes);
    return tt_row_compare(seen->row, single->bytes, single->size_bytes, seen->dtype);
}

/* True if dimension `dim` counts the rows, and each row depends on its own input. */
static bool keeps_rows(const struct sightings *seen, int32_t dim, bool *out_rounded) {
    bool rounded = false;
    for (int32_t k = 0; k < seen->count; k++) {
        const struct tt_tensor_view *view = &seen->views[k];
        int32_t rows = seen->batches[k].rows;
        if (view->shape.rank <= dim || view->shape.dims[dim] != rows)
            return false;
        for (int32_t d = 0; d < dim; d++)
            if (view->shape.dims[d] != seen->views[0].shape.dims[d])
                return false;
        if (view->size_bytes != seen->views[0].size_bytes * (size_t)rows)
            return false;
        for (int32_t r = 0; rows > 1 && r < rows; r++) {
            enum tt_row_match match = match_row(seen, k, r, dim);
            if (match == TT_ROW_DIFFERENT)
                return false;
            rounded |= match == TT_ROW_ROUNDED;
        }
    }
    *out_rounded |= rounded;
    return true;
}

/* Finds the dimension of tensor `index` that counts its rows in all batches. */
static enum tt_err look_at(struct probe *p, int32_t index, const struct batch *batches,
                           int32_t batch_count) {
    struct tt_onnx_tensor *tensor = &p->options->graph->tensors[p->tensors[index]];
    const struct tt_ort_library *library = tt_ort_probe_library(p->options);
    struct sightings seen = {.dtype = tensor->dtype, .batches = batches, .count = batch_count};
    tensor->rows = TT_ONNX_ROWS_ELSEWHERE;
    if (!tensor->dense || tensor->dtype == TT_DTYPE_BYTES)
        return TT_OK;
    for (int32_t k = 0; k < batch_count; k++) {
        enum tt_err err = tt_ort_value_view(library, tensor->dtype, batches[k].values[index],
                                            &seen.views[k], p->why);
        if (err)
            return err;
    }
    tensor->row_bytes = (int64_t)seen.views[0].size_bytes;
    if (!p->options->signature->batched)
        return TT_OK;
    seen.row = malloc(seen.views[0].size_bytes + 1);
    if (!seen.row)
        return no_memory(p);
    for (int32_t dim = 0; dim < seen.views[0].shape.rank; dim++)
        if (keeps_rows(&seen, dim, &p->rounded[index])) {
            tensor->rows = dim ? TT_ONNX_ROWS_WITHIN : TT_ONNX_ROWS_KEPT;
            tensor->rows_dim = dim;
            break;
        }
    free(seen.row);
    return TT_OK;
}

/* The node that mixes the rows of `tensor`: going back through tensors that do not keep their rows,
 * the first one whose inputs all do. */
static int32_t find_mixer(const struct tt_onnx_graph *graph, int32_t tensor) {
    int32_t node = graph->tensors[tensor].producer;
    for (;;) {
        const struct tt_onnx_node *at = &graph->nodes[node];
        int32_t before = -1;
        for (int32_t k = 0; k < at->input_count; k++) {
            const struct tt_onnx_tensor *input = &graph->tensors[at->inputs[k]];
            if (input->producer >= 0 && !input->from_shapes && input->rows != TT_ONNX_ROWS_KEPT)
                before = input->producer > before ? input->producer : before;
        }
        if (before < 0)
            return node;
        node = before;
    }
}

static enum tt_err refuse_liar(struct probe *p) {
    const struct tt_onnx_graph *graph = p->options->graph;
    for (int32_t i = 0; p->options->signature->batched && i < graph->output_count; i++) {
        const struct tt_onnx_tensor *output = &graph->tensors[graph->outputs[i]];
        if (output->rows == TT_ONNX_ROWS_KEPT || output->dtype == TT_DTYPE_BYTES)
            continue;
        int32_t mixer = find_mixer(graph, graph->outputs[i]);
        char node[300];
        return tt_fail(TT_ERR_INVALID, p->why,
                       "the model does not batch: %s makes '%s', whose rows in a batch differ from "
                       "those of single runs, and so do the rows of output '%s'; set "
                       "max_batch_size to 0, or export the model so that dimension 0 stays the "
                       "batch",
                       tt_onnx_graph_node_name(graph, mixer, node, sizeof(node)),
                       graph->nodes[mixer].output_count
                           ? graph->tensors[graph->nodes[mixer].outputs[0]].name
                           : "",
                       output->name);
    }
    return TT_OK;
}

static enum tt_err run_batches(struct probe *p, enum tt_synthetic_input_kind kind,
                               struct batch *batches, int32_t batch_count) {
    enum tt_err err = TT_OK;
    for (int32_t k = 0; !err && k < batch_count; k++) {
        err = run_rows(p, batches[k].first, batches[k].rows, kind, &batches[k].values);
        if (err && k >= MAX_ROWS)
            err = tt_fail_in(err, p->why,
                             "the model does not batch: it runs with 1 row, but not with %d",
                             batches[k].rows);
    }
    return err;
}

static enum tt_err probe_with(struct probe *p, enum tt_synthetic_input_kind kind) {
    /* Three rows alone, then in batches of two and three. */
    struct batch batches[MAX_BATCHES] = {{0, 1}, {1, 1}, {2, 1}, {0, 2}, {1, 2}, {0, 3}};
    int32_t count = p->options->signature->batched ? MAX_BATCHES : 1;
    enum tt_err err = run_batches(p, kind, batches, count);
    for (int32_t i = 0; !err && i < p->count; i++)
        err = look_at(p, i, batches, count);
    for (int32_t k = 0; k < count; k++)
        free_values(p, batches[k].values);
    return err;
}

/* An odd length tests the remainder loops of vectorised kernels. A model that rejects such a length
 * (its sides must be even, for example) is not tested with it. */
static enum tt_err probe_odd_length(struct probe *p, enum tt_synthetic_input_kind kind) {
    if (!p->options->signature->batched || !tt_signature_varies(p->options->signature) ||
        p->options->length <= ODD_LESS)
        return TT_OK;
    struct tt_onnx_tensor *tensors = p->options->graph->tensors;
    struct tt_onnx_tensor *before = calloc((size_t)p->count + 1, sizeof(*before));
    if (!before)
        return no_memory(p);
    for (int32_t i = 0; i < p->count; i++)
        before[i] = tensors[p->tensors[i]];
    p->length = p->options->length - ODD_LESS;
    bool ran = probe_with(p, kind) == TT_OK;
    for (int32_t i = 0; i < p->count; i++) {
        struct tt_onnx_tensor *tensor = &tensors[p->tensors[i]];
        bool kept = tensor->rows == before[i].rows && tensor->rows_dim == before[i].rows_dim;
        *tensor = before[i];
        if (ran && !kept)
            tensor->rows = TT_ONNX_ROWS_ELSEWHERE;
    }
    free(before);
    return TT_OK;
}

enum tt_err tt_ort_probe(const struct tt_engine_probe_options *options,
                         struct tt_engine_probe_report *out_report, struct tt_error *why) {
    struct probe p = {.options = options, .length = options->length, .why = why};
    struct tt_engine_probe_report report = {.first_rounded = -1};
    enum tt_err err = open_session(&p);
    for (int32_t i = 0; !err && i < p.count; i++)
        err = read_type(&p, i);
    if (!err) {
        for (int kind = 0; kind < TT_SYNTHETIC_INPUT_KINDS; kind++) {
            report.synthetic = (enum tt_synthetic_input_kind)kind;
            err = probe_with(&p, report.synthetic);
            if (!err || err == TT_ERR_NO_MEMORY)
                break;
        }
        if (err)
            tt_fail_in(err, why, "with synthetic inputs");
    }
    if (!err)
        err = probe_odd_length(&p, report.synthetic);
    if (!err)
        err = refuse_liar(&p);
    for (int32_t i = 0; !err && i < p.count; i++)
        if (p.rounded[i] && report.rounded_count++ == 0)
            report.first_rounded = p.tensors[i];
    if (p.session)
        tt_ort_probe_library(options)->api->ReleaseSession(p.session);
    free(p.tensors);
    free(p.names);
    free(p.rounded);
    if (!err)
        *out_report = report;
    return err;
}
