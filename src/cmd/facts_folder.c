#include "cmd/facts_folder.h"

#include "cmd/outcome.h"
#include "lab/scenario/allocate.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "facts/" in the working directory, or beside or above the program; NULL: none. */
static char *find_folder(void) {
    if (access("facts", R_OK | X_OK) == 0)
        return tt_copy_text("facts/");
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (length <= 0)
        return NULL;
    program[length] = '\0';
    *strrchr(program, '/') = '\0';
    static const char *const places[] = {"facts/", "../facts/", "../share/tutti/facts/"};
    for (size_t i = 0; i < TT_COUNT(places); i++) {
        char *folder = tt_format_text("%s/%s", program, places[i]);
        if (access(folder, R_OK | X_OK) == 0)
            return folder;
        free(folder);
    }
    return NULL;
}

char *tt_facts_folder(const char *world) {
    char *folder = find_folder();
    if (!folder || strcmp(world, "simulated") == 0)
        return folder;
    char *out = tt_format_text("%s%s/", folder, world);
    free(folder);
    if (access(out, R_OK | X_OK) == 0)
        return out;
    free(out);
    return NULL;
}

void tt_facts_list_systems(const char *folder, const char *separator, struct tt_text *out) {
    DIR *dir = folder ? opendir(folder) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        const char *dot = strstr(entry->d_name, ".pbtxt");
        if (dot && !dot[6])
            tt_text_printf(out, "%.*s%s", (int)(dot - entry->d_name), entry->d_name, separator);
    }
    if (dir)
        closedir(dir);
}

void tt_facts_refuse_unknown(const char *system, const char *world, const char *folder) {
    struct tt_text known;
    bool is_simulated = strcmp(world, "simulated") == 0;
    tt_text_init(&known);
    tt_facts_list_systems(folder, ", ", &known);
    if (known.length)
        fprintf(stderr, "tutti reproduce: there are no facts about '%s'%s%s; known systems: %.*s\n",
                system, is_simulated ? "" : " in the world ", is_simulated ? "" : world,
                (int)known.length - 2, known.bytes);
    else
        fprintf(stderr,
                "tutti reproduce: there are no facts about '%s' and no folder facts/%s here or "
                "beside the program; name a file\n",
                system, is_simulated ? "" : world);
    tt_text_fini(&known);
}

/* The world of the facts is that of the command line. */
static enum tt_err check_world(const struct tt_facts *facts, const char *world,
                               struct tt_error *why) {
    const char *own = facts->message->world[0] ? facts->message->world : "simulated";
    return strcmp(own, world) == 0 ? TT_OK
                                   : tt_facts_wrong(facts, facts->message, "world", why,
                                                    "these facts are of the world %s; give --world "
                                                    "%s",
                                                    own, own);
}

int tt_facts_open_system(const char *system, const char *world, struct tt_facts *out_facts) {
    struct tt_error why;
    bool is_path = strchr(system, '/') || strstr(system, ".pbtxt");
    char *folder = is_path ? NULL : tt_facts_folder(world), *path = NULL;
    enum tt_err err = TT_ERR_NOT_FOUND;
    if (is_path)
        path = tt_copy_text(system);
    else if (folder)
        path = tt_format_text("%s%s.pbtxt", folder, system);
    int code = EXIT_DONE;
    if (path)
        err = tt_facts_open(out_facts, path, &why);
    if (!err && check_world(out_facts, world, &why) != TT_OK) {
        tt_facts_close(out_facts);
        err = TT_ERR_INVALID;
    }
    if (err == TT_ERR_NOT_FOUND && !is_path) {
        tt_facts_refuse_unknown(system, world, folder);
        code = EXIT_USAGE;
    } else if (err) {
        code = tt_outcome_print_error(NULL, err, &why);
    }
    free(folder);
    free(path);
    return code;
}

char *tt_facts_state_path(const char *folder, const char *system, const char *world) {
    (void)mkdir(folder, 0777); /* if it cannot be made, opening the file says so */
    const char *slash = strrchr(system, '/'), *name = slash ? slash + 1 : system;
    const char *dot = strstr(name, ".pbtxt");
    return tt_format_text("%s/%.*s-%s.state", folder, dot ? (int)(dot - name) : (int)strlen(name),
                          name, world);
}
