#include "model/repository/repository.h"

#include "base/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char *join(const char *directory, const char *name) {
    char *path = NULL;
    return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

static bool is_directory(const char *parent, const char *name) {
    char *path = join(parent, name);
    struct stat status;
    bool is = path && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    free(path);
    return is;
}

static void model_fini(struct tt_repository_model *model) {
    for (int32_t i = 0; i < model->version_count; i++) {
        tt_cells_close(model->versions[i].cells);
        free(model->versions[i].path);
    }
    free(model->versions);
    tt_model_settings_free(model->settings);
    tt_model_config_free(model->config);
    tt_findings_fini(&model->findings);
    free(model->directory);
    free(model->name);
}

void tt_repository_free(struct tt_repository *take_repository) {
    if (!take_repository)
        return;
    for (int32_t i = 0; i < take_repository->model_count; i++)
        model_fini(&take_repository->models[i]);
    free(take_repository->models);
    free(take_repository->path);
    free(take_repository);
}

/* A version's number; 0: the name is not a version. */
static int64_t version_of(const char *name) {
    int64_t number = 0;
    if (*name == '0' || !*name)
        return 0;
    for (; *name; name++) {
        if (*name < '0' || *name > '9' || __builtin_mul_overflow(number, (int64_t)10, &number) ||
            __builtin_add_overflow(number, (int64_t)(*name - '0'), &number))
            return 0;
    }
    return number;
}

static int compare_versions(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* Fills `out` with the versions on disk, ascending; returns their number. */
static int32_t list_versions(struct tt_repository_model *model, int64_t *out) {
    DIR *directory = opendir(model->directory);
    if (!directory) {
        tt_findings_add(&model->findings, TT_FINDING_PROBLEM, "%s: %s", model->directory,
                        strerror(errno));
        return 0;
    }
    int32_t count = 0;
    for (struct dirent *entry; (entry = readdir(directory));) {
        int64_t number = version_of(entry->d_name);
        if (number == 0 || !is_directory(model->directory, entry->d_name))
            continue;
        if (count == TT_REPOSITORY_MAX_VERSIONS) {
            tt_findings_add(&model->findings, TT_FINDING_PROBLEM,
                            "%s: more than %d version directories", model->directory,
                            TT_REPOSITORY_MAX_VERSIONS);
            break;
        }
        out[count++] = number;
    }
    closedir(directory);
    qsort(out, (size_t)count, sizeof(*out), compare_versions);
    const struct tt_engine_traits *engine = model->config ? model->config->engine : NULL;
    if (count == 0 && engine && !engine->needs_file && !engine->file_name)
        tt_findings_add(&model->findings, TT_FINDING_PROBLEM,
                        "%s: there is no version directory; make an empty one, %s/1",
                        model->directory, model->directory);
    else if (count == 0 && !(model->config && model->config->is_foreign))
        tt_findings_add(&model->findings, TT_FINDING_PROBLEM,
                        "%s: there is no version directory; the model file belongs at %s/1/%s",
                        model->directory, model->directory,
                        model->config ? model->config->message->default_model_filename
                                      : "model.onnx");
    return count;
}

static enum tt_err take_versions(struct tt_repository_model *model, const int64_t *numbers,
                                 int32_t count) {
    model->versions = calloc((size_t)count + 1, sizeof(*model->versions));
    if (!model->versions)
        return TT_ERR_NO_MEMORY;
    for (int32_t i = 0; i < count; i++) {
        struct tt_repository_version *version = &model->versions[i];
        version->number = numbers[i];
        bool of_cells = model->settings && model->settings->unfold;
        if (asprintf(&version->path, "%s/%lld%s%s", model->directory, (long long)numbers[i],
                     of_cells ? "" : "/",
                     of_cells ? "" : model->config->message->default_model_filename) < 0) {
            version->path = NULL;
            return TT_ERR_NO_MEMORY;
        }
        model->version_count++;
    }
    return TT_OK;
}

/* The file that an engine reads by itself. */
static void check_file(struct tt_repository_model *model,
                       const struct tt_repository_version *version) {
    struct stat found;
    if (!model->config->engine->file_name ||
        (stat(version->path, &found) == 0 && S_ISREG(found.st_mode)))
        return;
    tt_findings_add(&model->findings, TT_FINDING_PROBLEM,
                    "%s: there is no such file; a model with backend '%s' is %s in the version's "
                    "directory",
                    version->path, model->config->engine->name,
                    model->config->message->default_model_filename);
}

/* For cells: presents their inputs and outputs as those of one file. `*out_onnx` is NULL after a
 * problem. */
static enum tt_err read_version(struct tt_repository_model *model,
                                struct tt_repository_version *version,
                                struct tt_onnx_file **out_onnx) {
    struct tt_error why;
    *out_onnx = NULL;
    if (!model->config->engine->needs_file) {
        check_file(model, version);
        enum tt_err err = tt_model_config_as_file(model->config, &model->findings, out_onnx);
        return err == TT_ERR_NO_MEMORY ? err : TT_OK;
    }
    if (!model->settings || !model->settings->unfold) {
        enum tt_err err = tt_onnx_file_read(version->path, out_onnx, &why);
        if (err == TT_ERR_NOT_FOUND && model->config->is_foreign)
            return TT_OK; /* it has other files */
        if (err == TT_ERR_NOT_FOUND)
            tt_repository_hint_file(version->path, &why);
        if (err && err != TT_ERR_NO_MEMORY)
            tt_findings_add(&model->findings, TT_FINDING_PROBLEM, "%s", why.text);
        if (!err)
            tt_repository_check_files(version, *out_onnx, &model->findings);
        return err == TT_ERR_NO_MEMORY ? err : TT_OK;
    }
    enum tt_err err = tt_cells_open(model->settings, model->directory, version->path,
                                    &version->cells, &model->findings);
    if (err || !version->cells)
        return err;
    *out_onnx = malloc(sizeof(**out_onnx));
    if (!*out_onnx)
        return TT_ERR_NO_MEMORY;
    tt_cells_present(version->cells, *out_onnx);
    return TT_OK;
}

/* True for a model whose answer consists of words, which a stream gets as they come. */
static bool emits(const struct tt_cells *cells) {
    bool any = false;
    for (int32_t i = 0; cells && i < cells->signature.output_count; i++)
        any = any || tt_cells_is_emitted(cells, i);
    return any;
}

static void check_token_slo(struct tt_repository_model *model, const struct tt_cells *cells) {
    const struct tt_model_settings *settings = model->settings;
    if (cells && settings && tt_token_slo_given(&settings->tokens) && !emits(cells))
        tt_model_settings_problem(settings, &model->findings, settings->message,
                                  settings->tokens.ttft_ns > 0 ? "ttft_ms" : "tpot_ms",
                                  "ttft_ms and tpot_ms are for models that emit words, as decoders "
                                  "of cells do; this one has one answer: leave them out");
}

/* The highest version completes the configuration; the others must agree with it. */
static enum tt_err read_onnx_files(struct tt_repository_model *model,
                                   const struct tt_engine_list *engines,
                                   int32_t default_max_batch) {
    bool completed = false;
    if (tt_model_config_names_steps(model->config))
        default_max_batch = 0; /* as in Triton: an ensemble batches if its file says so */
    for (int32_t i = model->version_count - 1; i >= 0; i--) {
        const char *path = model->versions[i].path;
        struct tt_onnx_file *onnx;
        enum tt_err err = read_version(model, &model->versions[i], &onnx);
        const struct tt_cells *cells = model->versions[i].cells;
        if (err)
            return err;
        if (!onnx)
            continue;
        if (completed)
            tt_model_config_check(model->config, onnx, path, &model->findings);
        else
            err = tt_model_config_complete(model->config, engines, onnx, path,
                                           cells ? cells->signature.max_batch : default_max_batch,
                                           &model->findings);
        if (!err && !completed) {
            tt_model_config_check_decoupled(model->config, emits(cells), &model->findings);
            check_token_slo(model, cells);
        }
        completed = true;
        free(onnx);
        if (err)
            return err;
    }
    return TT_OK;
}

static enum tt_err read_model(struct tt_repository_model *model,
                              const struct tt_engine_list *engines, const char *config_json,
                              int32_t default_max_batch) {
    char *config_path = join(model->directory, "config.pbtxt");
    char *settings_path = join(model->directory, "tutti.pbtxt");
    enum tt_err err = config_path && settings_path ? TT_OK : TT_ERR_NO_MEMORY;
    if (!err)
        err = tt_model_config_open(config_path, config_json, model->name, &model->config,
                                   &model->findings);
    if (!err)
        err = tt_model_settings_open(settings_path, &model->settings, &model->findings);
    free(config_path);
    free(settings_path);
    if (err)
        return err;
    if (model->config && model->settings)
        model->config->on_gpu = model->settings->device.is_cuda;
    if (model->config)
        tt_model_config_find_engine(model->config, engines, &model->findings);
    if (model->config && model->config->is_foreign && !model->config->engine)
        return model->findings.failed ? TT_ERR_NO_MEMORY : TT_OK;
    int64_t numbers[TT_REPOSITORY_MAX_VERSIONS];
    int32_t count = list_versions(model, numbers);
    if (!model->config || count == 0)
        return TT_OK;
    count = tt_model_config_choose(model->config, numbers, count, &model->findings);
    if (count == 0)
        tt_findings_add(&model->findings, TT_FINDING_PROBLEM,
                        "%s: the version policy leaves no version to serve", model->directory);
    err = take_versions(model, numbers, count);
    if (!err)
        err = read_onnx_files(model, engines, default_max_batch);
    for (int32_t i = 0; !err && i < model->version_count; i++)
        if (model->versions[i].cells && model->findings.problem_count == 0)
            tt_cells_follow(model->versions[i].cells, model->config, &model->findings);
    if (!err && model->settings && model->findings.problem_count == 0)
        tt_model_settings_check(model->settings, &model->config->signature, &model->findings);
    return err ? err : model->findings.failed ? TT_ERR_NO_MEMORY : TT_OK;
}

static int compare_models(const void *left, const void *right) {
    const struct tt_repository_model *a = left, *b = right;
    return strcmp(a->name, b->name);
}

static enum tt_err add_model(struct tt_repository *self, const char *name) {
    void *grown = realloc(self->models, (size_t)(self->model_count + 1) * sizeof(*self->models));
    if (!grown)
        return TT_ERR_NO_MEMORY;
    self->models = grown;
    struct tt_repository_model *model = &self->models[self->model_count++];
    *model =
        (struct tt_repository_model){.name = strdup(name), .directory = join(self->path, name)};
    return model->name && model->directory ? TT_OK : TT_ERR_NO_MEMORY;
}

static enum tt_err list_models(struct tt_repository *self, struct tt_error *why) {
    DIR *directory = opendir(self->path);
    if (!directory)
        return tt_fail(errno == ENOENT ? TT_ERR_NOT_FOUND : TT_ERR_IO, why,
                       "model repository %s: %s", self->path, strerror(errno));
    enum tt_err err = TT_OK;
    for (struct dirent *entry; !err && (entry = readdir(directory));)
        if (tt_repository_name_ok(entry->d_name) && is_directory(self->path, entry->d_name))
            err = add_model(self, entry->d_name);
    closedir(directory);
    return err;
}

static struct tt_repository *repository_new(const char *path) {
    struct tt_repository *self = calloc(1, sizeof(*self));
    if (!self || !(self->path = strdup(path))) {
        free(self);
        return NULL;
    }
    size_t length = strlen(self->path);
    while (length > 1 && self->path[length - 1] == '/') /* for clean paths in messages */
        self->path[--length] = '\0';
    return self;
}

/* Reads the models that were added, and returns the repository. */
static enum tt_err finish_scan(struct tt_repository *take_self, enum tt_err err,
                               const struct tt_engine_list *engines, const char *config_json,
                               int32_t default_max_batch, struct tt_repository **out_repository,
                               struct tt_error *why) {
    for (int32_t i = 0; !err && i < take_self->model_count; i++)
        err = read_model(&take_self->models[i], engines, config_json, default_max_batch);
    if (err == TT_ERR_NO_MEMORY)
        tt_fail(err, why, "model repository %s: out of memory", take_self->path);
    if (err) {
        tt_repository_free(take_self);
        return err;
    }
    *out_repository = take_self;
    return TT_OK;
}

enum tt_err tt_repository_scan(const char *path, const struct tt_engine_list *engines,
                               int32_t default_max_batch, struct tt_repository **out_repository,
                               struct tt_error *why) {
    struct tt_repository *self = repository_new(path);
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "model repository %s: out of memory", path);
    enum tt_err err = list_models(self, why);
    if (!err && self->model_count > 1)
        qsort(self->models, (size_t)self->model_count, sizeof(*self->models), compare_models);
    return finish_scan(self, err, engines, NULL, default_max_batch, out_repository, why);
}

enum tt_err tt_repository_scan_model(const char *path, const char *name,
                                     const struct tt_engine_list *engines, const char *config_json,
                                     int32_t default_max_batch,
                                     struct tt_repository **out_repository, struct tt_error *why) {
    struct tt_repository *self = repository_new(path);
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "model repository %s: out of memory", path);
    enum tt_err err = tt_repository_name_ok(name) && is_directory(path, name)
                          ? add_model(self, name)
                          : tt_fail(TT_ERR_NOT_FOUND, why,
                                    "model repository %s: there is no model '%s'", path, name);
    return finish_scan(self, err, engines, config_json, default_max_batch, out_repository, why);
}

const struct tt_repository_model *tt_repository_find(const struct tt_repository *self,
                                                     const char *name) {
    for (int32_t i = 0; i < self->model_count; i++)
        if (strcmp(self->models[i].name, name) == 0)
            return &self->models[i];
    return NULL;
}

bool tt_repository_model_ok(const struct tt_repository_model *model) {
    return model->findings.problem_count == 0;
}

bool tt_repository_name_ok(const char *name) {
    size_t length = strlen(name);
    return length > 0 && *name != '.' && length <= TT_REPOSITORY_NAME_BYTES && !strchr(name, '/') &&
           tt_is_utf8(name, length);
}

bool tt_repository_new_name_ok(const char *name) {
    size_t length = strlen(name);
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        if (*c < ' ' || *c == 0x7f || strchr("\\\"<>", *c))
            return false;
    return tt_repository_name_ok(name) && *name != '-' && *name != ' ' && name[length - 1] != ' ';
}
