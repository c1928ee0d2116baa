extern "C" __global__ void __launch_bounds__(32, 1)
k0_cumulative_sum(const float* __restrict__ x0, float* b0) {
    const int lane = threadIdx.x;
    const int task = blockIdx.x;
    double own[4];
    __shared__ __align__(16) double all_sum[32];
    double* const sum = all_sum;
    __shared__ __align__(16) double all_sum2[32];
    double* const sum2 = all_sum2;
    double carry_1 = -0.0;
    {
        const int t_2 = lane;
        double s_3 = -0.0;
        const int v4 = (t_2 * 4);
        if (((v4 + -100) < 0)) {
            {
                __align__(16) float vector5[4];
                const int v6 = (task * 100);
                fw_move<16>(vector5, &x0[(v6 + v4)]);
                {
                    s_3 = (s_3 + ((double)vector5[0]));
                    own[0] = s_3;
                }
                {
                    s_3 = (s_3 + ((double)vector5[1]));
                    own[1] = s_3;
                }
                {
                    s_3 = (s_3 + ((double)vector5[2]));
                    own[2] = s_3;
                }
                {
                    s_3 = (s_3 + ((double)vector5[3]));
                    own[3] = s_3;
                }
            }
        }
        sum[t_2] = s_3;
    }
    __syncwarp();
    {
        const int t_7 = lane;
        const double v8 = sum[t_7];
        const int v9 = (t_7 + -1);
        const double v10 = ((v9 >= 0) ? sum[v9] : -0.0);
        sum2[t_7] = (v10 + v8);
    }
    __syncwarp();
    {
        const int t_11 = lane;
        const double v12 = sum2[t_11];
        const int v13 = (t_11 + -2);
        const double v14 = ((v13 >= 0) ? sum2[v13] : -0.0);
        sum[t_11] = (v14 + v12);
    }
    __syncwarp();
    {
        const int t_15 = lane;
        const double v16 = sum[t_15];
        const int v17 = (t_15 + -4);
        const double v18 = ((v17 >= 0) ? sum[v17] : -0.0);
        sum2[t_15] = (v18 + v16);
    }
    __syncwarp();
    {
        const int t_19 = lane;
        const double v20 = sum2[t_19];
        const int v21 = (t_19 + -8);
        const double v22 = ((v21 >= 0) ? sum2[v21] : -0.0);
        sum[t_19] = (v22 + v20);
    }
    __syncwarp();
    {
        const int t_23 = lane;
        const double v24 = sum[t_23];
        const int v25 = (t_23 + -16);
        const double v26 = ((v25 >= 0) ? sum[v25] : -0.0);
        sum2[t_23] = (v26 + v24);
    }
    __syncwarp();
    {
        const int t_27 = lane;
        const int v28 = (t_27 + -1);
        const double v29 = ((v28 >= 0) ? sum2[v28] : -0.0);
        double before_30 = (carry_1 + v29);
        const int v31 = (t_27 * 4);
        if (((v31 + -100) < 0)) {
            {
                __align__(16) float vector32[4];
                {
                    const double v33 = own[0];
                    vector32[0] = ((float)(before_30 + v33));
                }
                {
                    const double v34 = own[1];
                    vector32[1] = ((float)(before_30 + v34));
                }
                {
                    const double v35 = own[2];
                    vector32[2] = ((float)(before_30 + v35));
                }
                {
                    const double v36 = own[3];
                    vector32[3] = ((float)(before_30 + v36));
                }
                const int v37 = (task * 100);
                fw_move<16>(&b0[(v37 + v31)], vector32);
            }
        }
    }
    const double v38 = sum2[31];
    carry_1 = (carry_1 + v38);
}
