/* tutti slice: cuts a model into stages that, run one after the other, answer what the whole
 * answers, bit for bit; writes them, and says where and why it was cut there. */
#include "cmd/verbs.h"

#include "cmd/arguments.h"
#include "model/onnx/cut_report.h"
#include "model/onnx/onnx_file.h"
#include "model/repository/repository.h"
#include "slicer/slicer.h"

#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char help[] =
    "Usage: tutti slice MODEL (--stages K|auto | --per-node | --by-batch | --at A,B,...) "
    "[OPTIONS]\n"
    "\n"
    "Cuts the model (a directory of a model repository, such as demo/models/cnn, or an ONNX file)\n"
    "into stages, each an ONNX file; they share one file of weights and answer what the whole\n"
    "model answers, bit for bit, which is checked. Without --out nothing is kept.\n"
    "\n"
    "  --stages K          K stages of about equal time, where few tensors cross; auto: as many\n"
    "                      (up to 16) as cost no more than 3 % of processor time\n"
    "  --per-node          wherever it can be cut\n"
    "  --by-batch          where the batch size that the operators run best at changes\n"
    "  --at A,B,...        after the nodes, or the makers of the tensors, of these names (of the\n"
    "                      optimised graph: see --explain)\n"
    "  --out DIR           write the stages to DIR, which must not be there yet\n"
    "  --explain           print the stages, what crosses each cut, and what cannot be cut and "
    "why\n"
    "  --svg FILE          draw the graph with its stages\n"
    "  --cost N            run whole and stages N times each, in turn, and compare\n"
    "  --batch N           measure times at this batch size (1)\n"
    "  --length N          what dimensions that vary are while it is measured (16)\n"
    "  --onnxruntime FILE  the ONNX Runtime library to load (looked for)\n"
    "  --help              this text\n";

enum { MAX_NAMES = 256 };

struct flags {
    const char *model, *out, *svg, *onnxruntime;
    bool explain;
    int64_t batch, length, cost;
    bool has_cut;
    struct tt_cut_request cut;
    const char *names[MAX_NAMES];
};

/* 0, or the exit code. */
static int set_cut(struct flags *flags, enum tt_cut_how how) {
    if (flags->has_cut)
        return tt_arguments_refuse(
            "slice", "one of --stages, --per-node, --by-batch and --at, not several", NULL);
    flags->has_cut = true;
    flags->cut.how = how;
    return 0;
}

static int take_names(struct flags *flags, char *text) {
    flags->cut.names = flags->names;
    for (char *save, *item = strtok_r(text, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        if (flags->cut.name_count == MAX_NAMES)
            return tt_arguments_refuse("slice", "--at takes up to 256 names", NULL);
        flags->names[flags->cut.name_count++] = item;
    }
    return flags->cut.name_count
               ? 0
               : tt_arguments_refuse("slice", "--at wants names of nodes, with commas between",
                                     NULL);
}

static int take_flag(int flag, struct flags *flags, char **argv) {
    int64_t number;
    switch (flag) {
    case 'k':
        if (strcmp(optarg, "auto") == 0)
            return set_cut(flags, TT_CUT_AUTO);
        if (!tt_arguments_number(optarg, 1, 4096, &number))
            return tt_arguments_refuse(
                "slice", "--stages wants a number from 1 to 4096 or auto, not", optarg);
        flags->cut.count = (int32_t)number;
        return set_cut(flags, TT_CUT_STAGES);
    case 'p': return set_cut(flags, TT_CUT_PER_NODE);
    case 'b': return set_cut(flags, TT_CUT_BY_BATCH);
    case 'a': {
        int code = set_cut(flags, TT_CUT_AT);
        return code ? code : take_names(flags, optarg);
    }
    case 'o': flags->out = optarg; return 0;
    case 'e': flags->explain = true; return 0;
    case 's': flags->svg = optarg; return 0;
    case 'c':
        return tt_arguments_number(optarg, 1, 100000, &flags->cost)
                   ? 0
                   : tt_arguments_refuse("slice", "--cost wants a number from 1 to 100000, not",
                                         optarg);
    case 'n':
        return tt_arguments_number(optarg, 1, 4096, &flags->batch)
                   ? 0
                   : tt_arguments_refuse("slice", "--batch wants a number from 1 to 4096, not",
                                         optarg);
    case 'l':
        return tt_arguments_number(optarg, 1, 1 << 20, &flags->length)
                   ? 0
                   : tt_arguments_refuse("slice", "--length wants a number from 1 to 1048576, not",
                                         optarg);
    case 'r': flags->onnxruntime = optarg; return 0;
    case ':': return tt_arguments_refuse("slice", "a value is missing after", argv[optind - 1]);
    default: return tt_arguments_refuse("slice", "unknown flag", argv[optind - 1]);
    }
}

/* -1: go on; else the exit code. */
static int parse_flags(int argc, char **argv, struct flags *flags) {
    static const struct option options[] = {
        {"stages", required_argument, NULL, 'k'},
        {"per-node", no_argument, NULL, 'p'},
        {"by-batch", no_argument, NULL, 'b'},
        {"at", required_argument, NULL, 'a'},
        {"out", required_argument, NULL, 'o'},
        {"explain", no_argument, NULL, 'e'},
        {"svg", required_argument, NULL, 's'},
        {"batch", required_argument, NULL, 'n'},
        {"cost", required_argument, NULL, 'c'},
        {"length", required_argument, NULL, 'l'},
        {"onnxruntime", required_argument, NULL, 'r'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    *flags = (struct flags){0};
    opterr = 0;
    optind = 1;
    int flag;
    while ((flag = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (flag == 'h') {
            fputs(help, stdout);
            return 0;
        }
        int code = take_flag(flag, flags, argv);
        if (code)
            return code;
    }
    if (optind + 1 != argc)
        return tt_arguments_refuse("slice", "one MODEL is needed", NULL);
    if (!flags->has_cut)
        return tt_arguments_refuse(
            "slice", "where to cut? --stages K, --per-node, --by-batch or --at NAMES", NULL);
    flags->model = argv[optind];
    return -1;
}

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

static void ignore(void *context, struct tt_engine_task *task) {
    (void)context;
    (void)task;
}

static enum tt_err with_engine(const struct flags *flags, struct tt_slicer_options *options,
                               struct tt_error *why) {
    struct tt_ort_library_options where = {.path = flags->onnxruntime};
    struct tt_ort_library *library;
    enum tt_err err = tt_ort_library_open(&where, &library, why);
    if (err)
        return err;
    struct tt_ort_engine_options engine = {
        .library = library, .executor_count = 1, .queue_depth = 1, .done = ignore};
    err = tt_ort_engine_open(&engine, &options->engine, why);
    if (!err) {
        options->library = library;
        err = slice(flags, options, why);
        options->engine->ops->close(options->engine);
    }
    tt_ort_library_close(library);
    return err;
}

/* Does the bare ONNX file batch? Where every input and output has a variable first dimension. */
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
    return with_engine(flags, &options, why);
}

static enum tt_err from_repository(const struct flags *flags, const char *real,
                                   struct tt_error *why) {
    char parent[4096], name[4096];
    snprintf(parent, sizeof(parent), "%s", real);
    snprintf(name, sizeof(name), "%s", real);
    struct tt_repository *repository;
    enum tt_err err =
        tt_repository_scan(dirname(parent), TT_MODEL_DEFAULT_MAX_BATCH, &repository, why);
    if (err)
        return err;
    const char *wanted = basename(name);
    const struct tt_repository_model *model = tt_repository_find(repository, wanted);
    if (!model)
        err = tt_fail(TT_ERR_NOT_FOUND, why, "%s holds no model '%s'", repository->path, wanted);
    else if (!tt_repository_model_ok(model))
        err = tt_fail(TT_ERR_INVALID, why, "%s", tt_findings_first_problem(&model->findings));
    else if (tt_model_config_is_emulated(model->config))
        err =
            tt_fail(TT_ERR_INVALID, why, "model '%s' is emulated: there is nothing to cut", wanted);
    if (!err) {
        const struct tt_signature *told = &model->config->signature;
        struct tt_slicer_options options = {.name = model->name,
                                            .path = model->versions[model->version_count - 1].path,
                                            .batched = told->batched,
                                            .max_batch = told->max_batch};
        err = with_engine(flags, &options, why);
    }
    tt_repository_free(repository);
    return err;
}

int tt_cmd_slice(int argc, char **argv) {
    struct flags flags;
    int code = parse_flags(argc, argv, &flags);
    if (code >= 0)
        return code;
    char real[4096];
    struct stat status;
    if (!realpath(flags.model, real) || stat(real, &status) != 0) {
        fprintf(stderr, "tutti slice: %s: %s\n", flags.model, strerror(errno));
        return 2;
    }
    struct tt_error why;
    enum tt_err err = S_ISDIR(status.st_mode) ? from_repository(&flags, real, &why)
                                              : from_file(&flags, real, &why);
    if (!err)
        return 0;
    fprintf(stderr, "tutti slice: %s\n", why.text);
    return err == TT_ERR_NOT_FOUND || err == TT_ERR_INVALID || err == TT_ERR_IO ||
                   err == TT_ERR_UNSUPPORTED
               ? 2
               : 1;
}
