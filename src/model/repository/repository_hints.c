#include "model/repository/repository.h"

#include "base/utf8.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool ends_in(const char *name, const char *end) {
    size_t length = strlen(name), tail = strlen(end);
    return length > tail && strcmp(name + length - tail, end) == 0;
}

/* 0: there is none. */
static mode_t mode_of(const char *directory, const char *name) {
    char path[4096];
    struct stat status;
    int length = snprintf(path, sizeof(path), "%s/%s", directory, name);
    return length < (int)sizeof(path) && stat(path, &status) == 0 ? status.st_mode : 0;
}

static bool is_file(const char *directory, const char *name) {
    return S_ISREG(mode_of(directory, name));
}

static bool is_folder(const char *directory, const char *name) {
    return S_ISDIR(mode_of(directory, name));
}

static bool exists(const char *directory, const char *name) {
    return mode_of(directory, name) != 0;
}

/* The folder of a path; "." without one. */
static void folder_of(const char *path, char *out, size_t capacity) {
    const char *slash = strrchr(path, '/');
    snprintf(out, capacity, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
}

/* The only file of this kind in the folder, or the first one of another kind; "": there is none. */
static void find_candidate(const char *folder, char *out_onnx, char *out_other, size_t capacity) {
    DIR *directory = opendir(folder);
    int onnx_count = 0;
    *out_onnx = *out_other = '\0';
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (entry->d_name[0] == '.' || !is_file(folder, entry->d_name))
            continue;
        bool is_onnx = ends_in(entry->d_name, ".onnx");
        onnx_count += is_onnx;
        snprintf(is_onnx ? out_onnx : out_other, capacity, "%s", entry->d_name);
    }
    if (directory)
        closedir(directory);
    if (onnx_count > 1)
        *out_onnx = '\0';
}

void tt_repository_hint_file(const char *path, struct tt_error *why) {
    char folder[4096], onnx[300], other[300];
    folder_of(path, folder, sizeof(folder));
    find_candidate(folder, onnx, other, sizeof(onnx));
    struct tt_error before = *why;
    if (*onnx)
        tt_fail(TT_OK, why,
                "%.600s; %s lies there: rename it, or write default_model_filename: \"%s\" in "
                "config.pbtxt",
                before.text, onnx, onnx);
    else if (*other)
        tt_fail(TT_OK, why, "%.600s; %s lies there: Tutti runs ONNX files; export the model as one",
                before.text, other);
}

void tt_repository_check_files(struct tt_repository_version *version,
                               const struct tt_onnx_file *onnx, struct tt_findings *findings) {
    char folder[4096];
    folder_of(version->path, folder, sizeof(folder));
    version->ir_version = onnx->ir_version;
    version->opset = onnx->opset;
    for (int32_t i = 0; i < onnx->external_count; i++)
        if (!is_file(folder, onnx->externals[i]))
            tt_findings_add(findings, TT_FINDING_PROBLEM,
                            exists(folder, onnx->externals[i])
                                ? "%s: its weights are in %s/%s, which is not a regular file"
                                : "%s: its weights are in %s/%s, and there is no such file; copy "
                                  "it from where the model was exported",
                            version->path, folder, onnx->externals[i]);
}

/* True for a folder that has a version with a model file, or a configuration. */
static bool is_model(const char *path) {
    return is_file(path, "config.pbtxt") || is_file(path, "tutti.pbtxt") ||
           is_file(path, "1/model.onnx");
}

/* Shows bytes that are no text as '?'. */
static void hint_name(const char *path, const char *name, struct tt_findings *findings) {
    char shown[TT_REPOSITORY_NAME_BYTES + 1];
    snprintf(shown, sizeof(shown), "%s", name);
    for (char *at = shown; *at;) {
        size_t step = tt_utf8_step(at, strlen(at));
        if (!step)
            *at = '?';
        at += step ? step : 1;
    }
    tt_findings_add(findings, TT_FINDING_REMARK,
                    "%s/%s is no model: its name is not UTF-8 text; rename the folder", path,
                    shown);
}

void tt_repository_hints(const char *path, struct tt_findings *findings) {
    if (is_model(path)) {
        char parent[4096], *real = realpath(path, NULL);
        folder_of(real ? real : path, parent, sizeof(parent));
        tt_findings_add(findings, TT_FINDING_REMARK,
                        "%s is a model, not a folder of models; is its parent meant, %s?", path,
                        parent);
        free(real);
    }
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        const char *name = entry->d_name;
        if (name[0] != '.' && ends_in(name, ".onnx") && is_file(path, name))
            tt_findings_add(findings, TT_FINDING_REMARK,
                            "%s/%s is no model where it lies; move it to %s/%.*s/1/model.onnx",
                            path, name, path, (int)(strlen(name) - strlen(".onnx")), name);
        if (name[0] != '.' && !tt_is_utf8(name, strlen(name)) && is_folder(path, name))
            hint_name(path, name, findings);
    }
    if (directory)
        closedir(directory);
}
