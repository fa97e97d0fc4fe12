#include "engine/python/python_environment.h"

#include "model/text/json_arena.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char parameter[] = "EXECUTION_ENV_PATH";
static const char model_directory[] = "$$TRITON_MODEL_DIRECTORY";

/* Bytes of the model's directory in the path of its file, DIRECTORY/1/model.py. */
static int directory_length(const char *path) {
    const char *end = path + strlen(path);
    for (int up = 0; up < 2 && end > path; up++) {
        do
            end--;
        while (end > path && *end != '/');
    }
    return (int)(end - path);
}

static enum tt_err find_in(const char *environment, const char *path, char **out_interpreter,
                           struct tt_error *why) {
    struct stat found;
    char *interpreter;
    size_t prefix = strlen(model_directory);
    bool is_inside = strncmp(environment, model_directory, prefix) == 0;
    int length = is_inside ? directory_length(path) : 0;
    if (asprintf(&interpreter, "%.*s%s/bin/python3", length, path,
                 is_inside ? environment + prefix : environment) < 0)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    if (access(interpreter, X_OK) == 0) {
        *out_interpreter = interpreter;
        return TT_OK;
    }
    bool is_file = !is_inside && stat(environment, &found) == 0 && S_ISREG(found.st_mode);
    enum tt_err err =
        is_file || strstr(environment, ".tar")
            ? tt_fail(TT_ERR_UNSUPPORTED, why,
                      "%s: '%s' is an archive; unpack it, and name its directory", parameter,
                      environment)
            : tt_fail(TT_ERR_NOT_FOUND, why,
                      "%s: there is no '%s'; name the directory of a venv or of a conda "
                      "environment",
                      parameter, interpreter);
    free(interpreter);
    return err;
}

enum tt_err tt_python_environment_find(const char *config_json, const char *path, const char *usual,
                                       char **out_interpreter, struct tt_error *why) {
    struct tt_json_arena arena;
    json_t *config;
    enum tt_err err = tt_json_arena_open(&arena, config_json, strlen(config_json), &config, why);
    if (err)
        return err;
    const json_t *value = json_object_get(json_object_get(config, "parameters"), parameter);
    const char *environment = json_string_value(json_object_get(value, "string_value"));
    if (environment) {
        err = find_in(environment, path, out_interpreter, why);
    } else {
        *out_interpreter = strdup(usual ? usual : "python3");
        err = *out_interpreter ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    }
    tt_json_arena_close(&arena, config);
    return err;
}
