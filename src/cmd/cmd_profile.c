/* tutti profile: measures a model's latency per batch size (and input length) on this machine and
 * writes it beside the model, where the server, the emulated devices and the simulator read it. */
#include "cmd/verbs.h"

#include "base/instant.h"
#include "cmd/arguments.h"
#include "engine/onnxruntime.h"
#include "model/profile_file.h"
#include "model/repository.h"
#include "rt/calibrate.h"

#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char help[] = "Usage: tutti profile MODEL_DIRECTORY [OPTIONS]\n"
                           "\n"
                           "Measures how long the model (a directory of a model repository, such "
                           "as demo/models/cnn) runs per batch size, and\n"
                           "per input length where it has one, on one executor of this machine, "
                           "and writes MODEL_DIRECTORY/profile.pbtxt.\n"
                           "\n"
                           "  --max-batch N       largest batch (the model's maximum)\n"
                           "  --lengths A,B,...   input lengths to measure (the model's length "
                           "classes, else 8,16,32,64,128)\n"
                           "  --runs N            at least so many runs per point (20)\n"
                           "  --output FILE       where to write; - for stdout\n"
                           "  --onnxruntime FILE  the ONNX Runtime library to load (looked for)\n"
                           "  --help              this text\n";

enum { MOST_LENGTHS = 32 };

struct flags {
    char *model;
    int64_t max_batch, runs;
    int32_t lengths[MOST_LENGTHS], length_count;
    const char *output, *onnxruntime;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number) {
    (void)number;
    interrupted = 1;
}

static bool parse_lengths(char *text, struct flags *flags) {
    for (char *save, *item = strtok_r(text, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        int64_t length;
        if (flags->length_count == MOST_LENGTHS || !tt_arguments_number(item, 1, 1 << 20, &length))
            return false;
        if (flags->length_count && flags->lengths[flags->length_count - 1] >= length)
            return false;
        flags->lengths[flags->length_count++] = (int32_t)length;
    }
    return flags->length_count > 0;
}

/* -1: go on; else the exit code. */
static int parse_flags(int argc, char **argv, struct flags *flags) {
    static const struct option options[] = {
        {"max-batch", required_argument, NULL, 'b'},
        {"lengths", required_argument, NULL, 'l'},
        {"runs", required_argument, NULL, 'n'},
        {"output", required_argument, NULL, 'o'},
        {"onnxruntime", required_argument, NULL, 'r'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    *flags = (struct flags){.runs = 20};
    opterr = 0;
    optind = 1;
    int flag;
    while ((flag = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        switch (flag) {
        case 'b':
            if (!tt_arguments_number(optarg, 1, TT_PROFILE_MAX_BATCH, &flags->max_batch))
                return tt_arguments_refuse(
                    "profile", "--max-batch wants a number from 1 to 4096, not", optarg);
            break;
        case 'l':
            if (!parse_lengths(optarg, flags))
                return tt_arguments_refuse(
                    "profile", "--lengths wants up to 32 ascending numbers such as 8,16,32", NULL);
            break;
        case 'n':
            if (!tt_arguments_number(optarg, 1, 1000, &flags->runs))
                return tt_arguments_refuse("profile", "--runs wants a number from 1 to 1000, not",
                                           optarg);
            break;
        case 'o': flags->output = optarg; break;
        case 'r': flags->onnxruntime = optarg; break;
        case 'h': fputs(help, stdout); return 0;
        case ':':
            return tt_arguments_refuse("profile", "a value is missing after", argv[optind - 1]);
        default: return tt_arguments_refuse("profile", "unknown flag", argv[optind - 1]);
        }
    }
    if (optind + 1 != argc)
        return tt_arguments_refuse("profile", "one MODEL_DIRECTORY is needed", NULL);
    flags->model = argv[optind];
    return -1;
}

static bool progress(void *context, int32_t done, int32_t total, int32_t batch, int32_t length) {
    (void)context;
    if (isatty(STDERR_FILENO)) {
        int filled = done * 30 / total;
        fprintf(stderr, "\r[%.*s%*s] %d/%d  batch %d length %d      ", filled,
                "##############################", 30 - filled, "", done, total, batch, length);
    }
    return !interrupted;
}

static void device_name(char *out, size_t capacity) {
    snprintf(out, capacity, "unknown processor");
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[512];
    while (file && fgets(line, sizeof(line), file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) == 0 && colon) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(out, capacity, "%s, one thread", colon + 2);
            break;
        }
    }
    if (file)
        fclose(file);
}

static enum tt_err write_profile(const struct flags *flags, const char *directory,
                                 const struct tt_calibration_point *points, int32_t count,
                                 int32_t max_batch, struct tt_message *why) {
    struct tt_profile_file_point *lines = calloc((size_t)count, sizeof(*lines));
    if (!lines)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    for (int32_t i = 0; i < count; i++)
        lines[i] = (struct tt_profile_file_point){.batch = points[i].batch,
                                                  .length = points[i].length,
                                                  .runs = points[i].runs,
                                                  .latency_ns = points[i].median_ns,
                                                  .low_ns = points[i].low_ns,
                                                  .high_ns = points[i].high_ns};
    char device[256], date[16], path[4096];
    device_name(device, sizeof(device));
    time_t seconds = time(NULL);
    struct tm day;
    strftime(date, sizeof(date), "%Y-%m-%d", gmtime_r(&seconds, &day));
    struct tt_profile_file_origin origin = {.source = "measured by tutti " TUTTI_VERSION,
                                            .device = device,
                                            .date = date,
                                            .max_batch = max_batch};
    struct tt_text text;
    tt_text_init(&text);
    tt_profile_file_print(&origin, lines, count, &text);
    free(lines);
    enum tt_err err = TT_OK;
    snprintf(path, sizeof(path), "%s/profile.pbtxt", directory);
    if (flags->output && strcmp(flags->output, "-") == 0)
        fputs(tt_text_string(&text), stdout);
    else
        err = tt_text_write_file(flags->output ? flags->output : path, &text, why);
    if (!err && !(flags->output && strcmp(flags->output, "-") == 0))
        fprintf(stderr, "tutti profile: wrote %d points to %s\n", count,
                flags->output ? flags->output : path);
    tt_text_fini(&text);
    return err;
}

static enum tt_err measure(const struct flags *flags, const struct tt_repository_model *model,
                           struct tt_engine *engine, struct tt_message *why) {
    const struct tt_signature *told = &model->config->signature;
    int32_t max_batch = flags->max_batch ? (int32_t)flags->max_batch : told->max_batch;
    if (max_batch > told->max_batch)
        return tt_fail(TT_ERR_INVALID, why, "--max-batch %d is more than the model's %d", max_batch,
                       told->max_batch);
    struct tt_ort_model_options load = {.name = model->name,
                                        .path = model->versions[model->version_count - 1].path,
                                        .batched = told->batched,
                                        .max_batch = max_batch};
    struct tt_engine_model *loaded;
    enum tt_err err = tt_ort_engine_load(engine, &load, &loaded, why);
    if (err)
        return err;
    static const int32_t usual[] = {8, 16, 32, 64, 128};
    struct tt_calibrate_options options = {.max_batch = max_batch,
                                           .lengths = usual,
                                           .length_count = (int32_t)TT_COUNT(usual),
                                           .runs = (int32_t)flags->runs,
                                           .least_ns = 50 * TT_MS,
                                           .most_ns = 10 * TT_S,
                                           .progress = progress};
    if (flags->length_count) {
        options.lengths = flags->lengths;
        options.length_count = flags->length_count;
    } else if (model->settings->class_count) {
        options.lengths = model->settings->classes;
        options.length_count = model->settings->class_count;
    }
    struct tt_calibration_point *points;
    int32_t count;
    err = tt_calibrate(loaded, &options, &points, &count, why);
    if (isatty(STDERR_FILENO))
        fputc('\n', stderr);
    if (!err) {
        err = write_profile(flags, model->directory, points, count, max_batch, why);
        free(points);
    }
    engine->ops->unload(loaded);
    return err;
}

static void ignore(void *context, struct tt_engine_task *task) {
    (void)context;
    (void)task;
}

static enum tt_err profile(const struct flags *flags, struct tt_repository *repository,
                           const char *name, struct tt_message *why) {
    const struct tt_repository_model *model = tt_repository_find(repository, name);
    if (!model)
        return tt_fail(TT_ERR_NOT_FOUND, why, "%s holds no model '%s'", repository->path, name);
    if (!tt_repository_model_ok(model))
        return tt_fail(TT_ERR_INVALID, why, "%s", tt_findings_first_problem(&model->findings));
    struct tt_ort_library_options where = {.path = flags->onnxruntime};
    struct tt_ort_library *library;
    enum tt_err err = tt_ort_library_open(&where, &library, why);
    if (err)
        return err;
    struct tt_ort_engine_options options = {
        .library = library, .executor_count = 1, .queue_depth = 1, .done = ignore};
    struct tt_engine *engine;
    err = tt_ort_engine_open(&options, &engine, why);
    if (!err) {
        err = measure(flags, model, engine, why);
        engine->ops->close(engine);
    }
    tt_ort_library_close(library);
    return err;
}

int tt_cmd_profile(int argc, char **argv) {
    struct flags flags;
    int code = parse_flags(argc, argv, &flags);
    if (code >= 0)
        return code;
    signal(SIGINT, on_interrupt);
    char parent[4096], name[4096], real[4096];
    if (!realpath(flags.model, real)) {
        fprintf(stderr, "tutti profile: %s: %s\n", flags.model, strerror(errno));
        return 2;
    }
    snprintf(parent, sizeof(parent), "%s", real);
    snprintf(name, sizeof(name), "%s", real);
    struct tt_message why;
    struct tt_repository *repository;
    enum tt_err err =
        tt_repository_scan(dirname(parent), TT_MODEL_DEFAULT_MAX_BATCH, &repository, &why);
    if (!err) {
        err = profile(&flags, repository, basename(name), &why);
        tt_repository_free(repository);
    }
    if (!err)
        return 0;
    fprintf(stderr, "tutti profile: %s\n", why.text);
    if (err == TT_ERR_CANCELLED)
        return 130;
    return err == TT_ERR_NOT_FOUND || err == TT_ERR_INVALID || err == TT_ERR_IO ? 2 : 1;
}
