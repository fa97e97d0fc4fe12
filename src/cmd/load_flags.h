/* The flags of `tutti load` after parsing; load_plan.h gives them a meaning together. Text is
 * borrowed from argv. */
#ifndef TT_CMD_LOAD_FLAGS_H
#define TT_CMD_LOAD_FLAGS_H

#include "client/http_login.h"
#include "cmd/flags.h"

/* Lists hold "VALUE", for all models, or "MODEL=VALUE". */
struct tt_load_flags {
    const char *url;
    struct tt_http_login_options login;
    struct tt_flag_list models;      /* NAME or NAME:WEIGHT */
    const char *experiment;          /* instead of models */
    struct tt_flag_list maps;        /* NAME=SERVED, *=SERVED */
    const char *arrivals;            /* CSV */
    double rate;                     /* < 0: not given */
    int32_t process;                 /* enum tt_process; < 0: not given */
    int64_t gamma_shape_ppm;         /* 0: not given */
    double duration_s, warm_up_s;    /* < 0: not given */
    int64_t requests, seed;          /* < 0: not given */
    int64_t concurrency;             /* 0: open loop */
    int64_t rows;                    /* 0: not given */
    const char *metadata;            /* FILE, or NULL: the server says */
    const char *length;              /* N, A-B or @FILE */
    struct tt_flag_list shapes;      /* INPUT:DIMS or MODEL/INPUT:DIMS */
    struct tt_flag_list input_files; /* FILE or MODEL=FILE */
    bool json_body;
    struct tt_flag_list slos; /* MS or MODEL=MS */
    int64_t timeout_us;       /* < 0: as the SLO says */
    int64_t priority;
    int64_t connections, give_up_ms;
    bool json, yes_remote;
    const char *csv, *svg, *html;
    double fail_bad_rate; /* < 0: never */
};

/* cmd_load.c: runs the verb; returns the exit code. */
int tt_load_run(const struct tt_load_flags *flags);

#endif
