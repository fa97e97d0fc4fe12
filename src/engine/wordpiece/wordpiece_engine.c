/* The engine kind "wordpiece": a tokenizer as a model, mostly the first step of an ensemble.
 *
 * A version is a directory, which may be empty; vocab.txt lies in it or beside it. The model has
 * one input of strings, one per row, and up to three INT64 outputs: input_ids, attention_mask and
 * token_type_ids. With dims [ N ] every row is cut and filled up to N tokens; with [ -1 ] a row has
 * 512 at most, and the rows of one request are filled up to the longest of them. So an answer never
 * depends on the other requests of its batch: each has a result of its own. */
#include "base/array.h"
#include "engine/engine_kind.h"
#include "engine/engine_result.h"
#include "engine/engine_task.h"
#include "engine/gather.h"
#include "engine/thread_executors.h"
#include "engine/wordpiece/wordpiece.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 512, MAX_LIMIT = 65536 }; /* tokens of a row */

enum role { INPUT_IDS, ATTENTION_MASK, TOKEN_TYPE_IDS, ROLES };
static const char *const role_names[ROLES] = {"input_ids", "attention_mask", "token_type_ids"};

struct executor {
    struct tt_executor_thread thread;     /* first */
    struct tt_engine_valid_members valid; /* of the running task */
    int64_t *ids;                         /* [rows * limit] of the member at hand */
    int64_t ids_capacity;
    int32_t *counts; /* [rows] */
    int64_t counts_capacity;
};

struct model {
    struct tt_engine_model model; /* first */
    struct tt_signature signature;
    enum role roles[ROLES]; /* of each output */
    struct tt_wordpiece *wordpiece;
    int32_t fixed; /* tokens of each row; 0: as many as the longest has */
};

static struct executor *executor_of(struct tt_executor_thread *thread) {
    return TT_CONTAINER_OF(thread, struct executor, thread);
}

static const struct model *model_of(const struct tt_engine_model *model) {
    return TT_CONTAINER_OF(model, struct model, model);
}

/* ---- running a task, on an executor's thread ---- */

/* Encodes the member's rows into ids and counts; *out_longest: of all rows. */
static enum tt_err encode_rows(struct executor *self, const struct model *model,
                               const struct tt_engine_member *member, int32_t limit,
                               int32_t *out_longest) {
    const char *at = member->inputs[0].bytes;
    *out_longest = 0;
    if (!TT_ARRAY_RESERVE(self->ids, &self->ids_capacity, (int64_t)member->rows * limit) ||
        !TT_ARRAY_RESERVE(self->counts, &self->counts_capacity, member->rows))
        return tt_fail(TT_ERR_NO_MEMORY, member->why, "out of memory for %d rows", member->rows);
    for (int32_t row = 0; row < member->rows; row++) {
        uint32_t size;
        memcpy(&size, at, sizeof(size)); /* the string fits: tt_engine_task_begin() checked it */
        int32_t count = tt_wordpiece_encode(model->wordpiece, at + sizeof(size), size,
                                            self->ids + (int64_t)row * limit, limit);
        if (count < 0)
            return tt_fail(TT_ERR_INVALID, member->why, "row %d of input '%s' is not UTF-8 text",
                           row, model->signature.inputs[0].name);
        self->counts[row] = count;
        *out_longest = count > *out_longest ? count : *out_longest;
        at += sizeof(size) + size;
    }
    return TT_OK;
}

static void fill_row(const struct executor *self, const struct model *model, enum role role,
                     int32_t row, int32_t limit, int32_t width, int64_t *to) {
    int32_t count = self->counts[row];
    int64_t pad = tt_wordpiece_pad(model->wordpiece);
    for (int32_t i = 0; i < width; i++)
        to[i] = role == INPUT_IDS        ? (i < count ? self->ids[(int64_t)row * limit + i] : pad)
                : role == ATTENTION_MASK ? i < count
                                         : 0;
}

static enum tt_err make_result(const struct executor *self, const struct model *model,
                               struct tt_engine_member *member, int32_t limit, int32_t width) {
    const struct tt_signature *signature = &model->signature;
    struct tt_engine_result *result =
        tt_engine_result_new(1, signature->output_count, true, member->rows);
    size_t cells = (size_t)member->rows * (size_t)width;
    for (int32_t o = 0; result && o < signature->output_count; o++) {
        struct tt_engine_output *output = &result->outputs[o];
        int64_t *to = output->memory = malloc(cells * sizeof(*to));
        if (!to) {
            tt_engine_result_free(result);
            result = NULL;
            break;
        }
        output->view = (struct tt_tensor_view){
            .bytes = to, .size_bytes = cells * sizeof(*to), .shape = {2, {member->rows, width}}};
        for (int32_t row = 0; row < member->rows; row++)
            fill_row(self, model, model->roles[o], row, limit, width, to + (int64_t)row * width);
    }
    if (!result)
        return tt_fail(TT_ERR_NO_MEMORY, member->why, "out of memory for %d rows", member->rows);
    member->result = result;
    member->first_row = 0;
    return TT_OK;
}

static void run(struct tt_executor_thread *thread, struct tt_engine_task *task) {
    struct executor *self = executor_of(thread);
    const struct model *model = model_of(task->model);
    int32_t limit = model->fixed ? model->fixed : LIMIT;
    task->head.outcome = TT_OUTCOME_DONE;
    task->head.last_step_done = task->head.last_step; /* a model has one step */
    tt_engine_task_begin(task, &model->signature, &self->valid);
    for (int32_t i = 0; i < self->valid.count; i++) {
        struct tt_engine_member *member = self->valid.members[i];
        if (tt_executor_thread_asked(thread) == TT_EXECUTOR_ABORT) {
            tt_engine_task_give_up(task);
            task->head.last_step_done = task->head.first_step - 1;
            return;
        }
        int32_t longest;
        member->err = encode_rows(self, model, member, limit, &longest);
        if (!member->err)
            member->err =
                make_result(self, model, member, limit, model->fixed ? model->fixed : longest);
    }
}

static void release(struct tt_executor_thread *thread) {
    struct executor *self = executor_of(thread);
    free(self->ids);
    free(self->counts);
    tt_engine_valid_members_fini(&self->valid);
}

static const struct tt_executor_thread_ops executor_ops = {.run = run, .release = release};

/* ---- models ---- */

static int32_t step_count(const struct tt_engine_model *model) {
    (void)model;
    return 1;
}

static const struct tt_signature *signature_of(const struct tt_engine_model *model) {
    return &model_of(model)->signature;
}

static void unload(struct tt_engine_model *take_model) {
    if (!take_model)
        return;
    struct model *self = TT_CONTAINER_OF(take_model, struct model, model);
    tt_wordpiece_close(self->wordpiece);
    free(self);
}

/* Finds the role of each output, and how many tokens they have. */
static enum tt_err check_outputs(struct model *self, const char *name, struct tt_error *why) {
    const struct tt_signature *signature = &self->signature;
    int64_t tokens = signature->outputs[0].shape.dims[1];
    for (int32_t o = 0; o < signature->output_count; o++) {
        const struct tt_tensor_spec *output = &signature->outputs[o];
        int32_t role = 0;
        while (role < ROLES && strcmp(role_names[role], output->name) != 0)
            role++;
        if (role == ROLES)
            return tt_fail(TT_ERR_INVALID, why,
                           "%s: a wordpiece model has no output '%s'; its outputs are input_ids, "
                           "attention_mask and token_type_ids",
                           name, output->name);
        if (output->dtype != TT_DTYPE_INT64 || output->shape.rank != 2 ||
            output->shape.dims[1] != tokens || tokens == 0 || tokens == 1 || tokens > MAX_LIMIT)
            return tt_fail(TT_ERR_INVALID, why,
                           "%s: output '%s' of a wordpiece model is TYPE_INT64 with dims [ -1 ], "
                           "or [ N ] for N tokens, 2 to %d, as all its outputs",
                           name, output->name, MAX_LIMIT);
        self->roles[o] = (enum role)role;
    }
    self->fixed = tokens > 0 ? (int32_t)tokens : 0;
    return TT_OK;
}

static enum tt_err check_signature(struct model *self, const char *name, struct tt_error *why) {
    const struct tt_signature *signature = &self->signature;
    const struct tt_tensor_spec *input = &signature->inputs[0];
    if (!signature->batched)
        return tt_fail(TT_ERR_INVALID, why,
                       "%s: a wordpiece model batches; write max_batch_size, 1 or more", name);
    if (signature->input_count != 1 || input->dtype != TT_DTYPE_BYTES || input->shape.rank != 2 ||
        input->shape.dims[1] != 1)
        return tt_fail(TT_ERR_INVALID, why,
                       "%s: a wordpiece model has one input, TYPE_STRING with dims [ 1 ]", name);
    if (signature->output_count > ROLES)
        return tt_fail(TT_ERR_INVALID, why, "%s: a wordpiece model has at most %d outputs", name,
                       (int)ROLES);
    return check_outputs(self, name, why);
}

/* `path` is the file that a version would have; the vocabulary lies beside it, or one folder up. */
static enum tt_err open_vocabulary(struct model *self, const char *path, struct tt_error *why) {
    char file[4096];
    int32_t up = 0;
    enum tt_err err = TT_ERR_NOT_FOUND;
    for (size_t at = strlen(path); at > 0 && up < 2 && err == TT_ERR_NOT_FOUND; at--) {
        if (path[at - 1] != '/')
            continue;
        up++;
        snprintf(file, sizeof(file), "%.*svocab.txt", (int)at, path);
        err = tt_wordpiece_open(file, &self->wordpiece, why);
    }
    return err;
}

static enum tt_err load(struct tt_engine *engine, const struct tt_engine_model_spec *spec,
                        struct tt_engine_model **out_model, struct tt_error *why) {
    struct model *self = calloc(1, sizeof(*self));
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "%s: out of memory", spec->name);
    self->model.engine = engine;
    self->signature = *spec->signature;
    enum tt_err err = check_signature(self, spec->name, why);
    if (!err)
        err = open_vocabulary(self, spec->path, why);
    if (err) {
        unload(&self->model);
        return err;
    }
    *out_model = &self->model;
    return TT_OK;
}

/* ---- the engine ---- */

static void close_engine(struct tt_engine *take_engine) {
    struct tt_thread_engine *self = TT_CONTAINER_OF(take_engine, struct tt_thread_engine, engine);
    tt_thread_engine_stop(self);
    for (int32_t i = 0; i < take_engine->executor_count; i++)
        release(tt_thread_engine_executor(self, i));
    tt_thread_engine_free(self);
}

static const struct tt_engine_ops ops = {
    .name = "wordpiece",
    .device = TT_THREAD_ENGINE_DEVICE,
    .run_here = tt_thread_engine_run_here,
    .watch = &tt_thread_engine_watch,
    .step_count = step_count,
    .signature = signature_of,
    .unload = unload,
    .output = tt_engine_result_output,
    .result_release = tt_engine_result_release,
    .state_release = tt_engine_no_state_release,
    .close = close_engine,
};

static enum tt_err open_engine(void *shared, const struct tt_engine_options *options,
                               struct tt_engine **out_engine, struct tt_error *why) {
    (void)shared;
    static const struct tt_thread_engine_layout layout = {.engine_bytes =
                                                              sizeof(struct tt_thread_engine),
                                                          .executor_bytes = sizeof(struct executor),
                                                          .ops = &ops};
    struct tt_thread_engine *self;
    enum tt_err err = tt_thread_engine_open(&layout, options, &self, why);
    if (err)
        return err;
    err = tt_thread_engine_start(self, &executor_ops, why);
    if (err) {
        close_engine(&self->engine);
        return err;
    }
    *out_engine = &self->engine;
    return TT_OK;
}

const struct tt_engine_kind tt_wordpiece_engine_kind = {
    .traits = {.name = "wordpiece", .platform = "wordpiece"},
    .open = open_engine,
    .load = load,
};
