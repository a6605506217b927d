// What somebody has to know of. docs/operations.md says for each what it means and what to do.
// Metric names are those of shared/telemetry/instruments.py; a test compares them. The exporter sends gauges without
// minimum and maximum, so that `Sum` is their value where `Max` is empty. A rule counts no rows as 0. Where requests are
// sampled, a row stands for `ItemCount` of them.
param actionGroupName string
param prefix string
param location string
param tags object
param emails array
param workspaceId string
param serviceBusId string
param storageId string
@description('`alerts` of the profile.')
param thresholds object
@description('0: none.')
param monthlyBudget int
param budgetStart string
@description('Whether there is a notifier.')
param notifies bool

var queries = [
  {
    name: 'poison-messages'
    title: 'Internal messages were given up'
    severity: 1
    window: 'PT15M'
    aggregation: 'Maximum'
    query: 'AppMetrics | where Name == "queue_poison_messages" | project TimeGenerated, Value = coalesce(Max, Sum), Queue = tostring(Properties.queue)'
    operator: 'GreaterThan'
    threshold: thresholds.poisonMessages
  }
  {
    name: 'oldest-pending'
    title: 'A task waits too long for a worker'
    severity: 2
    window: 'PT15M'
    aggregation: 'Maximum'
    query: 'AppMetrics | where Name == "queue_oldest_pending_task_age_seconds" | project TimeGenerated, Value = coalesce(Max, Sum)'
    operator: 'GreaterThan'
    threshold: thresholds.oldestPendingSeconds
  }
  {
    name: 'timer-lateness'
    title: 'Claims or deadlines are noticed late'
    severity: 2
    window: 'PT15M'
    aggregation: 'Maximum'
    query: 'AppMetrics | where Name == "queue_timer_lateness_seconds" | project TimeGenerated, Value = coalesce(Max, Sum)'
    operator: 'GreaterThan'
    threshold: thresholds.latenessSeconds
  }
  {
    name: 'failed-calls'
    title: 'Calls fail with 5xx'
    severity: 1
    window: 'PT15M'
    aggregation: 'Maximum'
    query: 'AppMetrics | where Name == "queue_call_duration_seconds" | where toint(Properties.outcome) >= 100 | summarize Calls = sum(ItemCount), Failed = sumif(ItemCount, toint(Properties.outcome) >= 500) by TimeGenerated = bin(TimeGenerated, 5m) | where Calls >= 20 | project TimeGenerated, Value = 100.0 * Failed / Calls'
    operator: 'GreaterThan'
    threshold: thresholds.failedCallsPercent
  }
  // What the app cannot count itself. The host sends these requests alone: host.json.
  {
    name: 'functions-end'
    title: 'Calls or messages end their process'
    severity: 1
    window: 'PT15M'
    aggregation: 'Maximum'
    query: 'AppRequests | where tostring(Properties.Category) == "Host.Results" | summarize Ended = sum(ItemCount) by TimeGenerated = bin(TimeGenerated, 5m) | project TimeGenerated, Value = Ended'
    operator: 'GreaterThan'
    threshold: 3
  }
  {
    name: 'event-backlog'
    title: 'Events wait for Service Bus'
    severity: 2
    window: 'PT15M'
    aggregation: 'Maximum'
    query: 'AppMetrics | where Name == "queue_event_backlog" | project TimeGenerated, Value = coalesce(Max, Sum)'
    operator: 'GreaterThan'
    threshold: thresholds.eventBacklog
  }
  {
    name: 'events-lost'
    title: 'Events were lost'
    severity: 1
    window: 'PT15M'
    aggregation: 'Maximum'
    query: 'AppMetrics | where Name in ("queue_lost_events", "queue_unannounced_expirations") | project TimeGenerated, Value = coalesce(Max, Sum)'
    operator: 'GreaterThan'
    threshold: 0
  }
  {
    name: 'credentials-end'
    title: 'A client ends soon, has ended, or is refused'
    severity: 2
    window: 'PT15M'
    aggregation: 'Maximum'
    query: 'AppMetrics | where Name == "queue_ending_credentials" | project TimeGenerated, Value = coalesce(Max, Sum), State = tostring(Properties.state)'
    operator: 'GreaterThan'
    threshold: 0
  }
  {
    name: 'stalled-tasks'
    title: 'Tasks wait, and nothing takes them'
    severity: 2
    window: 'PT15M'
    aggregation: 'Maximum'
    query: 'AppMetrics | where Name == "queue_stalled_tasks" | project TimeGenerated, Value = coalesce(Max, Sum)'
    operator: 'GreaterThan'
    threshold: 0
  }
  {
    name: 'refused-credentials'
    title: 'Credentials are refused, again and again'
    severity: 3
    window: 'PT15M'
    aggregation: 'Maximum'
    query: 'AppMetrics | where Name == "queue_call_duration_seconds" | where toint(Properties.outcome) == 401 | summarize Refused = sum(ItemCount) by TimeGenerated = bin(TimeGenerated, 5m) | project TimeGenerated, Value = Refused'
    operator: 'GreaterThan'
    threshold: thresholds.refusedCalls
  }
  {
    name: 'logs-full'
    title: 'No more logs are taken in today'
    severity: 2
    window: 'PT15M'
    aggregation: 'Maximum'
    query: '_LogOperation | where Category == "Ingestion" | where Detail contains "OverQuota" | project TimeGenerated, Value = 1'
    operator: 'GreaterThan'
    threshold: 0
  }
  // Since the last run, so that a deployment that has just begun is no incident. Two days later nothing is known any more.
  {
    name: 'timers-stand-still'
    title: 'The timer functions do not run'
    severity: 1
    window: 'P2D'
    aggregation: 'Maximum'
    query: 'AppMetrics | where Name == "queue_call_duration_seconds" | where tostring(Properties.call) in ("expire", "reconcile") | summarize Last = max(TimeGenerated) | project TimeGenerated = now(), Value = datetime_diff("minute", now(), Last)'
    operator: 'GreaterThan'
    threshold: 60
  }
]
// What notify/sending.py writes of a message that becomes a dead letter.
var ofNotifier = [
  {
    name: 'notifications-given-up'
    title: 'Notifications could not be sent'
    severity: 2
    window: 'PT15M'
    aggregation: 'Maximum'
    query: 'AppTraces | where Message contains "Given up: notifications" | project TimeGenerated, Value = 1'
    operator: 'GreaterThan'
    threshold: 0
  }
]

resource group 'Microsoft.Insights/actionGroups@2023-01-01' = {
  name: actionGroupName
  location: 'global'
  tags: tags
  properties: {
    groupShortName: 'tc-queue'
    enabled: true
    emailReceivers: [for email in emails: {
      name: email
      emailAddress: email
      useCommonAlertSchema: true
    }]
  }
}

resource rules 'Microsoft.Insights/scheduledQueryRules@2026-03-01' = [for rule in concat(queries, notifies ? ofNotifier : []): {
  name: '${prefix}-${rule.name}'
  location: location
  tags: tags
  kind: 'LogAlert'
  properties: {
    displayName: rule.title
    description: 'docs/operations.md, ${rule.name}'
    severity: rule.severity
    enabled: true
    autoMitigate: true
    scopes: [
      workspaceId
    ]
    evaluationFrequency: 'PT5M'
    windowSize: rule.window
    skipQueryValidation: true
    criteria: {
      allOf: [
        {
          query: rule.query
          timeAggregation: rule.aggregation
          metricMeasureColumn: rule.aggregation == 'Count' ? null : 'Value'
          operator: rule.operator
          threshold: rule.threshold
          failingPeriods: {
            numberOfEvaluationPeriods: 1
            minFailingPeriodsToAlert: 1
          }
        }
      ]
    }
    actions: {
      actionGroups: [
        group.id
      ]
    }
  }
}]

// By topic: over all of them one that nobody reads would hardly be seen. Unread are events that were too many all the time.
var ofEvents = [
  {
    name: 'dead-letters'
    metric: 'DeadletteredMessages'
    aggregation: 'Maximum'
  }
  {
    name: 'unread-events'
    metric: 'ActiveMessages'
    aggregation: 'Minimum'
  }
]

resource events 'Microsoft.Insights/metricAlerts@2026-01-01' = [for rule in ofEvents: {
  name: '${prefix}-${rule.name}'
  location: 'global'
  tags: tags
  properties: {
    description: 'docs/operations.md, ${rule.name}'
    severity: 3
    enabled: true
    scopes: [
      serviceBusId
    ]
    autoMitigate: true
    evaluationFrequency: 'PT15M'
    windowSize: 'PT1H'
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          criterionType: 'StaticThresholdCriterion'
          name: rule.name
          metricName: rule.metric
          dimensions: [
            {
              name: 'EntityName'
              operator: 'Include'
              values: [
                '*'
              ]
            }
          ]
          operator: 'GreaterThan'
          threshold: thresholds.eventBacklog
          timeAggregation: rule.aggregation
        }
      ]
    }
    actions: [
      {
        actionGroupId: group.id
      }
    ]
  }
}]

resource storageAvailability 'Microsoft.Insights/metricAlerts@2026-01-01' = {
  name: '${prefix}-storage-availability'
  location: 'global'
  tags: tags
  properties: {
    description: 'docs/operations.md, storage-availability'
    severity: 1
    enabled: true
    scopes: [
      storageId
    ]
    autoMitigate: true
    evaluationFrequency: 'PT5M'
    windowSize: 'PT15M'
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          criterionType: 'StaticThresholdCriterion'
          name: 'availability'
          metricName: 'Availability'
          operator: 'LessThan'
          threshold: 99
          timeAggregation: 'Average'
        }
      ]
    }
    actions: [
      {
        actionGroupId: group.id
      }
    ]
  }
}

// Told of what was spent, and of what the month will cost as it goes on.
resource budget 'Microsoft.Consumption/budgets@2026-06-01' = if (monthlyBudget > 0) {
  name: '${prefix}-budget'
  properties: {
    category: 'Cost'
    amount: monthlyBudget
    timeGrain: 'Monthly'
    timePeriod: {
      startDate: '${budgetStart}T00:00:00Z'
    }
    notifications: {
      spent: {
        enabled: true
        operator: 'GreaterThan'
        threshold: 80
        thresholdType: 'Actual'
        contactEmails: emails
        contactGroups: [
          group.id
        ]
      }
      forecast: {
        enabled: true
        operator: 'GreaterThan'
        threshold: 100
        thresholdType: 'Forecasted'
        contactEmails: emails
        contactGroups: [
          group.id
        ]
      }
    }
  }
}
