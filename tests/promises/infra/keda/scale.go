// Runs KEDA's metrics-api scaler once for the rule that stands on standard input, and says what a ScaledJob makes of it.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	v2 "k8s.io/api/autoscaling/v2"

	"github.com/kedacore/keda/v2/pkg/scalers"
	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"
	"github.com/kedacore/keda/v2/pkg/scaling/scaledjob"
)

type rule struct {
	Metadata, Auth map[string]string
	MaxExecutions  int64
}

func main() {
	var given rule
	check(json.NewDecoder(os.Stdin).Decode(&given))
	scaler, err := scalers.NewMetricsAPIScaler(&scalersconfig.ScalerConfig{
		TriggerMetadata: given.Metadata, AuthParams: given.Auth, GlobalHTTPTimeout: 10 * time.Second,
		MetricType: v2.AverageValueMetricType, ScalableObjectType: "ScaledJob",
	}, nil)
	check(err)
	ctx := context.Background()
	specs := scaler.GetMetricSpecForScaling(ctx)
	name := specs[0].External.Metric.Name
	metrics, active, err := scaler.GetMetricsAndActivity(ctx, name)
	check(err)
	length, most, _ := scaledjob.CalculateQueueLengthAndMaxValue(metrics, specs, given.MaxExecutions)
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{"active": active, "value": length, "executions": most}))
	check(scaler.Close(ctx))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
