#include "cmd/models_try.h"

#include "cmd/outcome.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX_CONFIG_BYTES = 64 << 20 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CAN_LIMIT = 0 }; /* a sanitizer's own memory is beyond any limit */
#else
enum { CAN_LIMIT = 1 };
#endif

/* Bytes of data that this process has now, as RLIMIT_DATA counts them. */
static int64_t data_bytes(void) {
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%*d %*d %*d %*d %*d %lld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static void limit_memory(int64_t max_bytes) {
    struct rlimit limit = {.rlim_cur = (rlim_t)(data_bytes() + max_bytes),
                           .rlim_max = RLIM_INFINITY};
    const struct rlimit no_core = {0, 0};
    if (!CAN_LIMIT || max_bytes <= 0)
        return;
    limit.rlim_max = limit.rlim_cur;
    (void)setrlimit(RLIMIT_DATA, &limit);
    (void)setrlimit(RLIMIT_CORE, &no_core);
}

static enum tt_err read_config(struct tt_text *out_text, struct tt_error *why) {
    for (;;) {
        char *to = tt_text_reserve(out_text, 1 << 16);
        size_t count = to ? fread(to, 1, 1 << 16, stdin) : 0;
        out_text->length += count;
        if (out_text->length > MAX_CONFIG_BYTES)
            return tt_fail(TT_ERR_INVALID, why, "the configuration is too long");
        if (count == 0)
            break;
    }
    tt_text_append(out_text, "", 1);
    return out_text->failed ? tt_fail(TT_ERR_NO_MEMORY, why, "out of memory") : TT_OK;
}

static void report(int64_t version, const enum tt_err *err, const char *reason) {
    char number[32] = "";
    if (version)
        snprintf(number, sizeof(number), "%lld", (long long)version);
    json_t *line = json_object();
    json_object_set_new(line, "version", json_string(number));
    if (err) {
        json_object_set_new(line, "error", json_integer(*err));
        json_t *text = json_string(reason);
        json_object_set_new(line, "reason", text ? text : json_string("(not UTF-8)"));
    }
    char *text = json_dumps(line, JSON_COMPACT);
    printf("%s\n", text ? text : "");
    fflush(stdout);
    free(text);
    json_decref(line);
}

static void on_version(void *context, int64_t version) {
    (void)context;
    report(version, NULL, NULL);
}

int tt_models_try_run(const struct tt_models_try *options) {
    struct tt_text config;
    struct tt_error why = {""};
    int64_t version = 0;
    if (options->parent) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != options->parent)
            return EXIT_FAILED;
    }
    tt_text_init(&config);
    enum tt_err err = options->reads_config ? read_config(&config, &why) : TT_OK;
    limit_memory(options->max_bytes);
    if (!err)
        err = tt_model_try(options->repository, options->model,
                           options->reads_config ? config.bytes : NULL, &options->check, on_version,
                           NULL, &version, &why);
    report(version, &err, err ? why.text : "");
    tt_text_fini(&config);
    return err ? EXIT_FAILED : EXIT_DONE;
}
