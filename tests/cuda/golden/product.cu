extern "C" __global__ void __launch_bounds__(64, 1)
k0_contract_relu(const float* __restrict__ x0, const float* __restrict__ x1, float* b0) {
    const int lane = threadIdx.x;
    const int task = blockIdx.x;
    float left[2];
    float right[2];
    float sums_[4];
    __shared__ __align__(16) float all_rows[320];
    float* const rows = all_rows;
    __shared__ __align__(16) float all_columns[320];
    float* const columns = all_columns;
    {
        const int t_1 = lane;
        sums_[0] = 0.0f;
        sums_[1] = 0.0f;
        sums_[2] = 0.0f;
        sums_[3] = 0.0f;
    }
    for (int block_2 = 0; block_2 < 3; ++block_2) {
        __syncthreads();
        #pragma unroll
        for (int iteration4 = 0; iteration4 < 4; ++iteration4) {
            const int i_3 = lane + iteration4 * 64;
            const int v5 = (i_3 % 16);
            const int v6 = (block_2 * 16);
            const int v7 = (v6 + v5);
            const int v8 = (i_3 / 16);
            const float v9 = x0[((v8 * 40) + min(v7, 39))];
            rows[((v5 * 20) + v8)] = (((v7 + -40) < 0) ? v9 : 0.0f);
        }
        #pragma unroll
        for (int iteration11 = 0; iteration11 < 4; ++iteration11) {
            const int i_10 = lane + iteration11 * 64;
            const int v12 = (i_10 % 16);
            const int v13 = (i_10 / 16);
            const int v14 = (block_2 * 16);
            const int v15 = (v14 + v13);
            const float v16 = x1[((min(v15, 39) * 16) + v12)];
            columns[((v13 * 20) + v12)] = (((v15 + -40) < 0) ? v16 : 0.0f);
        }
        __syncthreads();
        {
            const int t_17 = lane;
            const int v18 = (t_17 * 4);
            const float v19 = sums_[0];
            float s0_20 = v19;
            const int v21 = (v18 + 1);
            const float v22 = sums_[1];
            float s1_23 = v22;
            const int v24 = (v18 + 2);
            const float v25 = sums_[2];
            float s2_26 = v25;
            const int v27 = (v18 + 3);
            const float v28 = sums_[3];
            float s3_29 = v28;
            #pragma unroll 8
            for (int k_30 = 0; k_30 < 16; ++k_30) {
                {
                    __align__(16) float vector31[2];
                    const int v32 = (k_30 * 20);
                    fw_move<8>(vector31, &rows[(v32 + ((t_17 / 8) * 2))]);
                    {
                        left[0] = vector31[0];
                    }
                    {
                        left[1] = vector31[1];
                    }
                }
                {
                    __align__(16) float vector33[2];
                    const int v34 = (k_30 * 20);
                    fw_move<8>(vector33, &columns[(v34 + ((t_17 % 8) * 2))]);
                    {
                        right[0] = vector33[0];
                    }
                    {
                        right[1] = vector33[1];
                    }
                }
                const int v35 = (t_17 * 2);
                const float v36 = left[0];
                const float v37 = right[0];
                s0_20 = fmaf(v36, v37, s0_20);
                const int v38 = (v35 + 1);
                const float v39 = right[1];
                s1_23 = fmaf(v36, v39, s1_23);
                const float v40 = left[1];
                s2_26 = fmaf(v40, v37, s2_26);
                s3_29 = fmaf(v40, v39, s3_29);
            }
            sums_[0] = s0_20;
            sums_[1] = s1_23;
            sums_[2] = s2_26;
            sums_[3] = s3_29;
        }
    }
    {
        const int t_41 = lane;
        {
            __align__(16) float vector42[2];
            {
                const int v43 = (t_41 * 4);
                const float v44 = sums_[0];
                vector42[0] = fw_maximum(v44, 0.0f);
            }
            {
                const int v45 = (t_41 * 4);
                const float v46 = sums_[1];
                vector42[1] = fw_maximum(v46, 0.0f);
            }
            const int v47 = (((t_41 / 8) * 32) + ((t_41 % 8) * 2));
            fw_move<8>(&b0[v47], vector42);
        }
        {
            __align__(16) float vector48[2];
            {
                const int v49 = (t_41 * 4);
                const int v50 = (0 + 2);
                const float v51 = sums_[v50];
                vector48[0] = fw_maximum(v51, 0.0f);
            }
            {
                const int v52 = (t_41 * 4);
                const int v53 = (1 + 2);
                const float v54 = sums_[v53];
                vector48[1] = fw_maximum(v54, 0.0f);
            }
            const int v55 = (((t_41 / 8) * 32) + ((t_41 % 8) * 2));
            const int v56 = (v55 + 16);
            fw_move<8>(&b0[v56], vector48);
        }
    }
}
