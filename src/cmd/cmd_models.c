/* tutti models check DIR: reports every problem of a model repository without serving it. */
#include "cmd/models_try.h"
#include "cmd/outcome.h"
#include "cmd/verbs.h"

#include "base/memory_size.h"
#include "control/model_check.h"
#include "engine/engine_kind.h"
#include "model/repository/repository.h"
#include "serve/limits.h"

#include <stdio.h>

enum { ACTION_CHECK, ACTION_TRY };

struct flags {
    const char *directory, *model;
    int32_t action, default_max_batch, parent;
    struct tt_model_check_options check;
    int64_t max_bytes;
    bool json, config_stdin;
};

static const struct tt_flag_row flag_rows[] = {
    TT_OPERAND(TT_FLAG_CHOICE, "ACTION", action, true,
               "check, or try, as `tutti serve` does before it loads a model that may be hostile",
               .choices = "check|try", .default_value = -1),
    TT_OPERAND(TT_FLAG_TEXT, "DIR", directory, true, "the model repository"),
    TT_SWITCH("load", check.loads,
              "load each model as the server does, and run one generated row: finds what only the "
              "runtime knows, such as missing operators and rows that depend on each other"),
    TT_SWITCH("strict-profile", check.strict_profile, "as for tutti serve"),
    TT_SWITCH("measure-stale", check.measure_stale, "as for tutti serve"),
    TT_SWITCH("strict-gpu", check.strict_gpu, "as for tutti serve"),
    TT_TEXT("onnxruntime", "FILE", check.onnxruntime, NULL,
            "the ONNX Runtime library (default: searched for)"),
    TT_TEXT("python", "FILE", check.python, NULL,
            "the Python interpreter of models with backend python; it needs numpy (default: "
            "python3, in PATH)"),
    TT_INTEGER("max-model-bytes", "N", check.max_model_bytes, 0, INT64_MAX / 2, 0,
               "as for tutti serve"),
    TT_SWITCH("json", json, "print the report as JSON"),
    TT_INTEGER("default-max-batch", "N", default_max_batch, 0, TT_MODEL_LIMIT_MAX_BATCH,
               TT_MODEL_DEFAULT_MAX_BATCH,
               "max_batch_size of models that can batch and whose config.pbtxt does not set it"),
    TT_HEADING("try"),
    TT_TEXT("model", "NAME", model, NULL, "the model to load, all its versions"),
    TT_SWITCH("config-stdin", config_stdin,
              "read its configuration from standard input, as JSON, instead of config.pbtxt"),
    TT_INTEGER("max-bytes", "N", max_bytes, 0, INT64_MAX / 2, 0,
               "memory that loading may take; 0: no limit"),
    TT_INTEGER("parent", "PID", parent, 0, INT32_MAX, 0,
               "the process that started this one; when it ends, so does this one"),
};

static int try_model(const struct flags *flags) {
    if (!flags->model)
        return tt_flags_refuse(&tt_verb_models, "try needs --model NAME");
    const struct tt_models_try options = {.repository = flags->directory,
                                          .model = flags->model,
                                          .reads_config = flags->config_stdin,
                                          .max_bytes = flags->max_bytes,
                                          .parent = flags->parent,
                                          .check = flags->check};
    return tt_models_try_run(&options);
}

static int run(void *options) {
    struct flags *flags = options;
    struct tt_repository *repository = NULL;
    struct tt_error why;
    struct tt_limits limits;
    tt_limits_default(&limits);
    limits.model_bytes = flags->check.max_model_bytes;
    tt_limits_fit(&limits, tt_memory_usable());
    flags->check.max_model_bytes = limits.model_bytes;
    if (flags->action == ACTION_TRY)
        return try_model(flags);
    enum tt_err err = tt_repository_scan(flags->directory, tt_engines(), flags->default_max_batch,
                                         &repository, &why);
    if (err) {
        fprintf(stderr, "tutti models: %s\n", why.text);
        return err == TT_ERR_NO_MEMORY ? 1 : 2;
    }
    err = tt_model_check(repository, &flags->check, &why);
    if (err) {
        fprintf(stderr, "tutti models: %s\n", why.text);
        tt_repository_free(repository);
        return EXIT_FAILED;
    }
    struct tt_findings hints = {0};
    tt_repository_hints(flags->directory, &hints);
    for (int32_t i = 0; i < hints.count; i++)
        fprintf(stderr, "tutti models: %s\n", hints.items[i].sentence);
    tt_findings_fini(&hints);
    struct tt_text report;
    tt_text_init(&report);
    if (flags->json)
        err = tt_repository_report_json(repository, &report);
    else
        tt_repository_report(repository, &report);
    int code = 0;
    for (int32_t i = 0; i < repository->model_count; i++)
        if (!tt_repository_model_ok(&repository->models[i]))
            code = 1;
    if (err || report.failed) {
        fprintf(stderr, "tutti models: out of memory\n");
        code = 1;
    } else {
        fputs(tt_text_string(&report), stdout);
    }
    tt_text_fini(&report);
    tt_repository_free(repository);
    return code;
}

const struct tt_verb tt_verb_models = {
    .name = "models",
    .summary = "check a model repository and explain every problem",
    .usage = "check|try DIR [OPTIONS]",
    .description =
        "Reads every model of the repository DIR (config.pbtxt, tutti.pbtxt, the ONNX files) and "
        "reports each problem with file, line and column, and what would be right. It also checks "
        "policies and their options, profiles, files with weights, and the versions that ONNX "
        "Runtime runs.\n\n"
        "Exit code: 0 all models can be served; 1 some cannot; 2 usage error, or DIR cannot be "
        "read.",
    TT_VERB_RUNS(flag_rows, run)};
