#include "model/repository/repository.h"

#include <jansson.h>
#include <stdlib.h>

static void report_tensors(const struct tt_tensor_spec *specs, int32_t count, const char *role,
                           struct tt_text *out) {
    char shape[8 * 21];
    for (int32_t i = 0; i < count; i++)
        tt_text_printf(out, "  %-6s %s %s %s\n", role, specs[i].name, tt_dtype_name(specs[i].dtype),
                       tt_shape_print(&specs[i].shape, shape, sizeof(shape)));
}

/* C1: the cell types of the highest version, with their digests. */
static void report_cells(const struct tt_cells *cells, struct tt_text *out) {
    for (int32_t i = 0; i < cells->type_count; i++) {
        const struct tt_cell_type *type = &cells->types[i];
        tt_text_printf(out, "  cell   %s, batches of up to %d, reads %d other%s, ", type->name,
                       type->max_batch, type->arity, type->arity == 1 ? "" : "s");
        if (type->elements > 1)
            tt_text_printf(out, "%d elements each, ", type->elements);
        if (type->has_cache)
            tt_text_printf(out, "a cache of %lld bytes per request, ",
                           (long long)tt_cell_type_cache_bytes(type));
        tt_text_printf(out, "%.12s\n", type->digest);
    }
}

static const struct tt_cells *cells_of(const struct tt_repository_model *model) {
    return model->version_count > 0 ? model->versions[model->version_count - 1].cells : NULL;
}

static void report_model(const struct tt_repository_model *model, struct tt_text *out) {
    bool ok = tt_repository_model_ok(model);
    tt_text_printf(out, "%s: %s", model->name, ok ? "ok" : "");
    if (ok) {
        const struct tt_signature *signature = &model->config->signature;
        tt_text_printf(out, ", version%s", model->version_count == 1 ? "" : "s");
        for (int32_t i = 0; i < model->version_count; i++)
            tt_text_printf(out, " %lld", (long long)model->versions[i].number);
        if (signature->batched)
            tt_text_printf(out, ", batches of up to %d\n", signature->max_batch);
        else
            tt_text_puts(out, ", no batching\n");
        report_tensors(signature->inputs, signature->input_count, "input", out);
        report_tensors(signature->outputs, signature->output_count, "output", out);
        if (cells_of(model))
            report_cells(cells_of(model), out);
    } else {
        tt_text_printf(out, "%d problem%s\n", model->findings.problem_count,
                       model->findings.problem_count == 1 ? "" : "s");
    }
    for (int32_t i = 0; i < model->findings.count; i++) {
        const struct tt_finding *finding = &model->findings.items[i];
        tt_text_printf(out, "  %s: %s\n",
                       finding->kind == TT_FINDING_PROBLEM ? "problem" : "remark",
                       finding->sentence);
    }
}

void tt_repository_report(const struct tt_repository *self, struct tt_text *out_report) {
    int32_t bad = 0;
    for (int32_t i = 0; i < self->model_count; i++) {
        report_model(&self->models[i], out_report);
        bad += !tt_repository_model_ok(&self->models[i]);
    }
    if (self->model_count == 0)
        tt_text_printf(out_report,
                       "%s: there is no model; a model is a directory NAME with "
                       "NAME/1/model.onnx in it\n",
                       self->path);
    else
        tt_text_printf(out_report, "%d model%s, %d with problems\n", self->model_count,
                       self->model_count == 1 ? "" : "s", bad);
}

/* jansson rejects bytes that are not UTF-8, which a file name may contain. */
static json_t *json_text(const char *text) {
    json_t *json = json_string(text);
    return json ? json : json_string("(not UTF-8)");
}

/* An empty array for a model of one graph. */
static json_t *json_cells(const struct tt_cells *cells) {
    json_t *types = json_array();
    for (int32_t i = 0; cells && i < cells->type_count; i++) {
        const struct tt_cell_type *type = &cells->types[i];
        json_array_append_new(
            types, json_pack("{s:o, s:i, s:i, s:i, s:i, s:i, s:I, s:s}", "name",
                             json_text(type->name), "max_batch", (int)type->max_batch, "min_batch",
                             (int)type->min_batch, "reads", (int)type->arity, "states",
                             (int)type->state_count, "elements", (int)type->elements, "cache_bytes",
                             (json_int_t)tt_cell_type_cache_bytes(type), "sha256", type->digest));
    }
    return types;
}

static json_t *json_model(const struct tt_repository_model *model) {
    json_t *versions = json_array(), *findings = json_array();
    for (int32_t i = 0; i < model->version_count; i++)
        json_array_append_new(versions, json_integer(model->versions[i].number));
    for (int32_t i = 0; i < model->findings.count; i++) {
        const struct tt_finding *finding = &model->findings.items[i];
        json_array_append_new(findings,
                              json_pack("{s:s, s:o}", "kind",
                                        finding->kind == TT_FINDING_PROBLEM ? "problem" : "remark",
                                        "sentence", json_text(finding->sentence)));
    }
    json_t *config = NULL;
    if (model->config && tt_repository_model_ok(model)) {
        struct tt_text text;
        tt_text_init(&text);
        if (tt_model_config_json(model->config, &text) == TT_OK)
            config = json_loadb(text.bytes, text.length, 0, NULL);
        tt_text_fini(&text);
    }
    return json_pack("{s:o, s:b, s:o, s:o, s:o, s:o}", "name", json_text(model->name), "ok",
                     (int)tt_repository_model_ok(model), "versions", versions, "findings", findings,
                     "config", config ? config : json_null(), "cells", json_cells(cells_of(model)));
}

enum tt_err tt_repository_report_json(const struct tt_repository *self, struct tt_text *out_json) {
    json_t *json = json_array();
    bool complete = json != NULL;
    for (int32_t i = 0; complete && i < self->model_count; i++)
        complete = json_array_append_new(json, json_model(&self->models[i])) == 0;
    char *text = complete ? json_dumps(json, JSON_INDENT(2)) : NULL;
    if (text)
        tt_text_printf(out_json, "%s\n", text);
    free(text);
    json_decref(json);
    return text && !out_json->failed ? TT_OK : TT_ERR_NO_MEMORY;
}
