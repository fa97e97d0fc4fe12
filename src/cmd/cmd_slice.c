/* tutti slice: cuts a model into stages whose outputs equal the whole model's bit for bit, writes
 * them, and reports the cuts. */
#include "cmd/outcome.h"
#include "cmd/verbs.h"

#include "model/onnx/cut_report.h"
#include "model/onnx/onnx_file.h"
#include "model/repository/repository.h"
#include "slicer/slicer.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_NAMES = 256 };

struct flags {
    const char *model, *out, *svg, *onnxruntime;
    bool explain;
    int64_t batch, length, cost; /* 0: not given */
    int32_t cuts;                /* how many flags set `cut` */
    struct tt_cut_request cut;
    const char *names[MAX_NAMES];
};

static bool take_stages(void *options, char *text) {
    struct flags *self = options;
    int64_t count = 0;
    bool is_auto = strcmp(text, "auto") == 0;
    if (!is_auto && !tt_flags_integer(text, 1, 4096, &count))
        return false;
    self->cut.how = is_auto ? TT_CUT_AUTO : TT_CUT_STAGES;
    self->cut.count = (int32_t)count;
    self->cuts++;
    return true;
}

static bool take_names(void *options, char *text) {
    struct flags *self = options;
    self->cut.how = TT_CUT_AT;
    self->cut.names = self->names;
    self->cuts++;
    for (char *save, *item = strtok_r(text, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        if (self->cut.name_count == MAX_NAMES)
            return false;
        self->names[self->cut.name_count++] = item;
    }
    return self->cut.name_count > 0;
}

static bool take_per_node(void *options, char *text) {
    struct flags *self = options;
    (void)text;
    self->cut.how = TT_CUT_PER_NODE;
    self->cuts++;
    return true;
}

static bool take_by_batch(void *options, char *text) {
    take_per_node(options, text);
    ((struct flags *)options)->cut.how = TT_CUT_BY_BATCH;
    return true;
}

static const struct tt_flag_row flag_rows[] = {
    TT_OPERAND(TT_FLAG_TEXT, "MODEL", model, true,
               "a model of a model repository, such as demo/models/cnn, or an ONNX file"),
    TT_HEADING("Where to cut"),
    TT_CALL("stages", "K|auto", take_stages, "a whole number from 1 to 4096, or auto", NULL,
            "K stages of about equal time with few tensors across the cuts; auto: as many, up to "
            "16, as cost at most 3 % more processor time",
            .choices = "auto"),
    TT_CALL("per-node", NULL, take_per_node, NULL, NULL, "at every possible place"),
    TT_CALL("by-batch", NULL, take_by_batch, NULL, NULL,
            "where the operators' best batch size changes"),
    TT_CALL("at", "A,B,...", take_names, "up to 256 names of nodes with commas between", NULL,
            "after these nodes, or after the nodes that write these tensors, of the optimised "
            "graph (see --explain)"),
    TT_HEADING("Results"),
    TT_TEXT("out", "DIR", out, NULL,
            "write the stages to DIR, which must not exist; without it, nothing is kept"),
    TT_SWITCH("explain", explain,
              "print the stages, the tensors across each cut, and what cannot be cut and why"),
    TT_TEXT("svg", "FILE", svg, NULL, "draw the graph with its stages"),
    TT_INTEGER("cost", "N", cost, 1, 100000, 0,
               "run the whole model and the stages N times each, in turn, and compare the times"),
    TT_INTEGER("batch", "N", batch, 1, 4096, 0, "batch size of the measurements (default 1)"),
    TT_INTEGER("length", "N", length, 1, 1 << 20, 0,
               "size of variable dimensions in the measurements (default 16)"),
    TT_TEXT("onnxruntime", "FILE", onnxruntime, NULL,
            "the ONNX Runtime library (default: searched for)"),
};

static enum tt_err report(const struct flags *flags, const struct tt_slicer *slicer,
                          struct tt_error *why) {
    struct tt_text text;
    tt_text_init(&text);
    enum tt_err err = TT_OK;
    if (flags->explain) {
        tt_text_printf(&text, "%s, %s: %d stages; times: %s\n", slicer->options.name, slicer->asked,
                       slicer->plan->stage_count, slicer->times);
        tt_cut_report(slicer->graph, slicer->plan, slicer->preferred, &text);
        if (slicer->probe.rounded_count)
            tt_text_printf(&text,
                           "%d tensors, '%s' first, have rows that are equal up to rounding only "
                           "when their batch changes: results of a request may then depend on its "
                           "batch in the last bits, cut or not\n",
                           slicer->probe.rounded_count,
                           slicer->graph->tensors[slicer->probe.first_rounded].name);
        else if (slicer->options.batched)
            tt_text_puts(&text, "every row of every tensor is the same bits in batches of 1, 2 "
                                "and 3\n");
        fputs(tt_text_string(&text), stdout);
        tt_text_clear(&text);
    }
    if (flags->svg) {
        char title[700];
        snprintf(title, sizeof(title), "%s, %s", slicer->options.name, slicer->asked);
        err = tt_cut_svg(slicer->graph, slicer->plan, title, &text);
        err = err ? tt_fail(err, why, "out of memory") : tt_text_write_file(flags->svg, &text, why);
    }
    tt_text_fini(&text);
    return err;
}

static enum tt_err compare_cost(const struct flags *flags, struct tt_slicer *slicer,
                                const char *directory, struct tt_error *why) {
    struct tt_slicer_cost cost;
    int32_t rows = flags->batch ? (int32_t)flags->batch : 1;
    enum tt_err err = tt_slicer_cost(slicer, directory, rows, (int32_t)flags->cost, &cost, why);
    if (!err)
        printf("cost of %d stages at batch %d: whole %lld us, stages %lld us of processor time, "
               "median of %lld pairs: %+.1f %%\n",
               slicer->plan->stage_count, rows, (long long)(cost.whole_ns / 1000),
               (long long)(cost.stages_ns / 1000), (long long)flags->cost,
               (double)(cost.ratio_ppm - 1000000) / 1e4);
    return err;
}

static enum tt_err slice(const struct flags *flags, struct tt_slicer_options *options,
                         struct tt_error *why) {
    options->cut = flags->cut;
    options->rows = (int32_t)flags->batch;
    options->length = (int32_t)flags->length;
    if (options->rows > 1 && options->rows > options->max_batch)
        return tt_fail(TT_ERR_INVALID, why, "--batch %d is more than the model's largest, %d",
                       options->rows, options->max_batch);
    struct tt_slicer *slicer;
    enum tt_err err = tt_slicer_new(options, &slicer, why);
    if (err)
        return err;
    err = report(flags, slicer, why);
    char scratch[300];
    snprintf(scratch, sizeof(scratch), "%s/stages", slicer->scratch);
    const char *directory = flags->out ? flags->out : scratch;
    if (!err && (flags->out || flags->cost))
        err = tt_slicer_write(slicer, directory, why);
    if (!err && flags->cost)
        err = compare_cost(flags, slicer, directory, why);
    if (!err)
        fprintf(stderr, "tutti slice: %s: %d stages%s%s\n", options->name,
                slicer->plan->stage_count,
                flags->out ? ", equal bit for bit to the whole model, in " : "",
                flags->out ? flags->out : "");
    tt_slicer_free(slicer);
    return err;
}

static void ignore(void *context, struct tt_device_task *task) {
    (void)context;
    (void)task;
}

static enum tt_err with_engine(const struct flags *flags, const struct tt_engine_traits *traits,
                               const struct tt_slicer_options *model, struct tt_error *why) {
    const struct tt_engine_kind *kind = tt_engine_kind_of(traits);
    if (!kind->cutting)
        return tt_fail(TT_ERR_INVALID, why, "model '%s': backend '%s' cannot cut models",
                       model->name, traits->name);
    struct tt_engine_runtime_options where = {.onnxruntime = flags->onnxruntime};
    struct tt_engine_runtime runtime;
    enum tt_err err = tt_engine_runtime_open(kind, &where, &runtime, why);
    if (err)
        return err;
    struct tt_engine_options engine = {.executor_count = 1, .queue_depth = 1, .done = ignore};
    struct tt_slicer_options options = *model;
    options.runtime = &runtime;
    err = tt_engine_open(&runtime, &engine, &options.engine, why);
    if (!err) {
        err = slice(flags, &options, why);
        options.engine->ops->close(options.engine);
    }
    tt_engine_runtime_close(&runtime);
    return err;
}

/* A bare ONNX file batches if every input and output has a variable first dimension. */
static enum tt_err from_file(const struct flags *flags, const char *path, struct tt_error *why) {
    struct tt_onnx_file *file;
    enum tt_err err = tt_onnx_file_read(path, &file, why);
    if (err)
        return err;
    bool batched = file->input_count > 0;
    for (int32_t i = 0; i < file->input_count; i++)
        batched &= file->inputs[i].spec.shape.rank > 0 && file->inputs[i].spec.shape.dims[0] < 0;
    for (int32_t i = 0; i < file->output_count; i++)
        batched &= file->outputs[i].spec.shape.rank > 0 && file->outputs[i].spec.shape.dims[0] < 0;
    free(file);
    struct tt_slicer_options options = {.name = flags->model,
                                        .path = path,
                                        .batched = batched,
                                        .max_batch = TT_MODEL_DEFAULT_MAX_BATCH};
    return with_engine(flags, tt_engines()->traits[0], &options, why);
}

static enum tt_err from_repository(const struct flags *flags, const char *real,
                                   struct tt_error *why) {
    char parent[4096], name[4096];
    snprintf(parent, sizeof(parent), "%s", real);
    snprintf(name, sizeof(name), "%s", real);
    struct tt_repository *repository;
    enum tt_err err = tt_repository_scan(dirname(parent), tt_engines(), TT_MODEL_DEFAULT_MAX_BATCH,
                                         &repository, why);
    if (err)
        return err;
    const char *wanted = basename(name);
    const struct tt_repository_model *model = tt_repository_find(repository, wanted);
    if (!model)
        err = tt_fail(TT_ERR_NOT_FOUND, why, "there is no model '%s' in %s", wanted,
                      repository->path);
    else if (!tt_repository_model_ok(model))
        err = tt_fail(TT_ERR_INVALID, why, "%s", tt_findings_first_problem(&model->findings));
    else if (model->config->engine->emulates)
        err = tt_fail(TT_ERR_INVALID, why, "model '%s' is %s; only real models can be cut", wanted,
                      model->config->engine->name);
    if (!err) {
        const struct tt_signature *told = &model->config->signature;
        struct tt_slicer_options options = {.name = model->name,
                                            .path = model->versions[model->version_count - 1].path,
                                            .batched = told->batched,
                                            .max_batch = told->max_batch};
        err = with_engine(flags, model->config->engine, &options, why);
    }
    tt_repository_free(repository);
    return err;
}

static int run(void *options) {
    const struct flags *flags = options;
    if (flags->cuts == 0)
        return tt_flags_refuse(&tt_verb_slice, "no cut is given: --stages K, --per-node, "
                                               "--by-batch or --at NAMES is required");
    if (flags->cuts > 1)
        return tt_flags_refuse(&tt_verb_slice,
                               "--stages, --per-node, --by-batch and --at exclude each other");
    char real[4096];
    struct stat status;
    if (!realpath(flags->model, real) || stat(real, &status) != 0) {
        fprintf(stderr, "tutti slice: %s: %s\n", flags->model, strerror(errno));
        return EXIT_USAGE;
    }
    struct tt_error why;
    enum tt_err err =
        S_ISDIR(status.st_mode) ? from_repository(flags, real, &why) : from_file(flags, real, &why);
    if (!err)
        return EXIT_DONE;
    int code = tt_outcome_print_error("slice", err, &why);
    return err == TT_ERR_IO ? EXIT_USAGE : code;
}

const struct tt_verb tt_verb_slice = {
    .name = "slice",
    .summary = "cut a model into stages with the same outputs",
    .usage = "MODEL (--stages K|auto | --per-node | --by-batch | --at A,B,...) [OPTIONS]",
    .description =
        "Cuts the model into stages, each an ONNX file. The stages share one file of weights, and "
        "their outputs equal the whole model's bit for bit, which is checked.",
    TT_VERB_RUNS(flag_rows, run)};
