#include "profile/row_probe.h"

#include "engine/row_compare.h"
#include "engine/synthetic_input.h"
#include "profile/blocking_run.h"

#include <stdlib.h>
#include <string.h>

struct probe {
    struct tt_engine_model *model;
    const struct tt_engine_ops *ops;
    const struct tt_signature *signature;
    struct tt_blocking_run blocking_run;
    int32_t length;
    enum tt_synthetic_input_kind kind;
    struct tt_error *reason;
};

/* Runs rows first .. first + rows - 1 in one batch. The caller releases the result. */
static enum tt_err run_rows(struct probe *p, int32_t first, int32_t rows,
                            struct tt_engine_result **out_result) {
    struct tt_synthetic_input synthetic;
    enum tt_err err = tt_synthetic_input_init(&synthetic, p->signature, first, rows, p->length,
                                              p->kind, p->reason);
    if (err)
        return err;
    err = tt_blocking_run_whole(&p->blocking_run, p->model, rows, synthetic.views, NULL, out_result,
                                p->reason);
    tt_synthetic_input_fini(&synthetic);
    return err;
}

/* Finds made-up inputs that the model takes, and runs the first row. Models differ in what they
 * take: images want some size, tokens want to be in the vocabulary. */
static enum tt_err find_inputs(struct probe *p, int32_t length,
                               struct tt_engine_result **out_first) {
    static const int32_t usual[] = {16, 64, 224};
    bool varies = tt_signature_varies(p->signature);
    tt_assert(length >= 0);
    int32_t count = varies && length == 0 ? (int32_t)TT_COUNT(usual) : 1;
    enum tt_err err = TT_ERR_INVALID;
    struct tt_error first_reason = {{0}};
    for (int32_t k = 0; err && k < count; k++) {
        p->length = length ? length : usual[k];
        for (int kind = 0; err && kind < TT_SYNTHETIC_INPUT_KINDS; kind++) {
            p->kind = (enum tt_synthetic_input_kind)kind;
            err = run_rows(p, 0, 1, out_first);
            if (err && !*first_reason.text)
                first_reason = *p->reason;
        }
    }
    if (err)
        *p->reason = first_reason;
    return err;
}

/* The output in which the row of `batch` is not what it is `alone`; -1: there is none. */
static int32_t differing_output(const struct probe *p, const struct tt_engine_result *alone,
                                const struct tt_engine_result *batch, int32_t row) {
    for (int32_t i = 0; i < p->signature->output_count; i++) {
        enum tt_dtype dtype = p->signature->outputs[i].dtype;
        struct tt_tensor_view single, shared;
        p->ops->output(alone, i, 0, 1, &single);
        p->ops->output(batch, i, row, 1, &shared);
        if (single.size_bytes != shared.size_bytes ||
            tt_row_compare(single.bytes, shared.bytes, single.size_bytes, dtype) ==
                TT_ROW_DIFFERENT)
            return i;
    }
    return -1;
}

/* A model that draws random numbers differs from itself. */
static bool is_random(struct probe *p, const struct tt_engine_result *first) {
    struct tt_engine_result *again;
    if (run_rows(p, 0, 1, &again))
        return false;
    bool differs = differing_output(p, first, again, 0) >= 0;
    p->ops->result_release(again);
    return differs;
}

static enum tt_rows compare(struct probe *p, struct tt_engine_result *const alone[2]) {
    struct tt_engine_result *both;
    if (run_rows(p, 0, 2, &both)) {
        tt_fail_in(TT_OK, p->reason, "it runs with one row, but not with two");
        return TT_ROWS_DEPENDENT;
    }
    int32_t differing = -1;
    for (int32_t row = 0; row < 2 && differing < 0; row++)
        differing = differing_output(p, alone[row], both, row);
    p->ops->result_release(both);
    if (differing < 0)
        return TT_ROWS_INDEPENDENT;
    tt_assert(differing < p->signature->output_count);
    const char *name = p->signature->outputs[differing].name;
    if (is_random(p, alone[0])) {
        tt_fail(TT_OK, p->reason, "output '%s' differs between two runs of one row", name);
        return TT_ROWS_UNKNOWN;
    }
    tt_fail(TT_OK, p->reason, "in output '%s' a row is not what it is alone", name);
    return TT_ROWS_DEPENDENT;
}

enum tt_rows tt_row_probe(struct tt_engine_model *model, int32_t length,
                          struct tt_error *out_reason) {
    const struct tt_engine_ops *ops = model->engine->ops;
    struct probe p = {
        .model = model, .ops = ops, .signature = ops->signature(model), .reason = out_reason};
    *out_reason->text = '\0';
    if (!p.signature->batched || p.signature->max_batch < 2)
        return TT_ROWS_INDEPENDENT;
    struct tt_engine_result *alone[2];
    enum tt_rows rows = TT_ROWS_UNKNOWN;
    tt_blocking_run_begin(&p.blocking_run, model->engine);
    if (find_inputs(&p, length, &alone[0])) {
        tt_fail_in(TT_OK, out_reason, "it runs with no made-up input");
    } else {
        if (run_rows(&p, 1, 1, &alone[1])) {
            tt_fail_in(TT_OK, out_reason, "it does not run with a made-up input");
        } else {
            rows = compare(&p, alone);
            ops->result_release(alone[1]);
        }
        ops->result_release(alone[0]);
    }
    tt_blocking_run_end(&p.blocking_run);
    if (rows == TT_ROWS_INDEPENDENT)
        *out_reason->text = '\0';
    return rows;
}

enum tt_err tt_row_run(struct tt_engine_model *model, int32_t length, struct tt_error *why) {
    const struct tt_engine_ops *ops = model->engine->ops;
    struct probe p = {
        .model = model, .ops = ops, .signature = ops->signature(model), .reason = why};
    struct tt_engine_result *result;
    tt_blocking_run_begin(&p.blocking_run, model->engine);
    enum tt_err err = find_inputs(&p, length, &result);
    if (!err)
        ops->result_release(result);
    tt_blocking_run_end(&p.blocking_run);
    return err;
}

enum tt_err tt_row_check(const struct tt_repository_model *model, struct tt_engine_model *loaded,
                         struct tt_error *out_remark, struct tt_error *why) {
    const struct tt_model_settings *settings = model->settings;
    struct tt_error reason = {{0}};
    *out_remark->text = '\0';
    if (model->config->engine->emulates || model->config->engine->separates_requests)
        return TT_OK;
    int32_t length = settings->class_count ? settings->classes[0] : 0;
    switch (tt_row_probe(loaded, length, &reason)) {
    case TT_ROWS_INDEPENDENT: return TT_OK;
    case TT_ROWS_UNKNOWN:
        if (model->config->has_default_max_batch)
            return tt_fail(TT_ERR_INVALID, why,
                           "whether its rows are independent could not be checked: %s; if they "
                           "are, write max_batch_size in config.pbtxt",
                           reason.text);
        tt_fail(TT_OK, out_remark,
                "model %s: whether its rows are independent could not be checked: %s", model->name,
                reason.text);
        return TT_OK;
    case TT_ROWS_DEPENDENT:
    default:
        return tt_fail(TT_ERR_INVALID, why,
                       "its rows depend on each other: %s; write max_batch_size: 0 in "
                       "config.pbtxt, or export the model so that dimension 0 is the batch",
                       reason.text);
    }
}
