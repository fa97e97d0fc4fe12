/* `tutti models check DIR`: everything that is wrong with a model repository, without serving it.
 */
#include "cmd/verbs.h"

#include "cmd/arguments.h"
#include "model/repository/repository.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "Usage: tutti models check [--json] [--default-max-batch N] DIR\n"
    "\n"
    "Reads every model of the repository DIR (config.pbtxt, tutti.pbtxt, the ONNX files) and says\n"
    "what is wrong: with file, line and column, and what would be right.\n"
    "\n"
    "  --json                  print for programs\n"
    "  --default-max-batch N   max_batch_size of batchable models whose config.pbtxt does not\n"
    "                          say (default 64)\n"
    "\n"
    "Exit code: 0 all models can be served; 1 some cannot; 2 bad usage, or DIR cannot be read.\n";

struct options {
    const char *directory;
    bool json;
    int32_t default_max_batch;
};

/* 0, or the exit code. */
static int parse_options(int argc, char **argv, struct options *out) {
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            out->json = true;
        } else if (strcmp(argv[i], "--default-max-batch") == 0) {
            int64_t number;
            if (i + 1 == argc ||
                !tt_arguments_number(argv[i + 1], 0, TT_MODEL_LIMIT_MAX_BATCH, &number))
                return tt_arguments_refuse(
                    "models", "--default-max-batch wants a number from 0 to 65536", NULL);
            out->default_max_batch = (int32_t)number;
            i++;
        } else if (argv[i][0] == '-') {
            return tt_arguments_refuse("models", "unknown flag", argv[i]);
        } else if (out->directory) {
            return tt_arguments_refuse("models", "one directory, please; there is also", argv[i]);
        } else {
            out->directory = argv[i];
        }
    }
    return out->directory ? 0
                          : tt_arguments_refuse(
                                "models", "check wants the directory of a model repository", NULL);
}

static int check(const struct options *options) {
    struct tt_repository *repository = NULL;
    struct tt_error why;
    enum tt_err err =
        tt_repository_scan(options->directory, options->default_max_batch, &repository, &why);
    if (err) {
        fprintf(stderr, "tutti models: %s\n", why.text);
        return err == TT_ERR_NO_MEMORY ? 1 : 2;
    }
    struct tt_text report;
    tt_text_init(&report);
    if (options->json)
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

int tt_cmd_models(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            return 0;
        }
    if (argc < 2)
        return tt_arguments_refuse("models", "what to do with the models? check", NULL);
    if (strcmp(argv[1], "check") != 0)
        return tt_arguments_refuse("models", "there is only 'check', not", argv[1]);
    struct options options = {.default_max_batch = TT_MODEL_DEFAULT_MAX_BATCH};
    int code = parse_options(argc, argv, &options);
    return code ? code : check(&options);
}
